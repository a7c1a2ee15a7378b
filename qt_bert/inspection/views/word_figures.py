"""The pictures of where heads end words: rows of text, agreement with jieba, two models side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import BoolArray, FloatArray
from qt_bert.inspection.views.words import RULES, Heard, Rule, Words
from qt_bert.probes.common.characters import QUERY
from qt_bert.probes.common.maps import known
from qt_bert.probes.word_ends.judge import (
    ENDS,
    GOES_ON,
    HIT,
    TRUE_NO,
    WORDS,
    WORDS_HIT,
    WORDS_SAID,
    counts_of,
    measured,
)
from qt_bert.probes.word_ends.references import FULL, PRECISE, SEARCH
from qt_bert.probes.word_ends.together import vote
from qt_bert.probes.word_ends.words import ACCURACY, FEATURE_NAMES, GRANULARITIES, WORD_F1
from qt_bert.results import Bars, HeatMap, Text, Tokens
from qt_bert.results.figures import BarSeries, Token, TokenLine
from qt_bert.results.numbers import signed
from qt_bert.results.text import Label

RATIO = Text(
    "ln(给 [SEP] 的权重 / 给下一个字的权重)", "ln(weight on [SEP] / weight on the next character)"
)
SHARE = Text("比例", "share")
MEASURES = {"accuracy": ACCURACY, "word_f1": WORD_F1}
LEAST_VOTERS = 3
_DEEPEST = 4.0
"""Beyond this log ratio colours do not change, so that two models can be compared."""

_SHORT: Mapping[str, Text] = {
    "calibrated": Text("校准", "calibrated"),
    "article": Text("规则", "rule"),
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索", "search"),
    FULL: Text("全", "full"),
}
"""What stands over narrow columns."""


class _Voice(NamedTuple):
    """Someone who says where words end; `head` and `heard` are None for several together."""

    name: Label
    said: dict[Rule, BoolArray]
    head: Head | None = None
    heard: Heard | None = None
    turned: dict[Rule, BoolArray] | None = None


def text_figures(found: Words, rule: Rule) -> tuple[Tokens, ...]:
    """A figure a text: jieba's three granularities, then every head, read by `rule`.

    Where heads are left out, a head that then decides otherwise has a second line, in which the
    decisions that turned are outlined.
    """
    return tuple(_text(found, number, rule) for number in range(len(found.asked)))


def _text(found: Words, number: int, rule: Rule) -> Tokens:
    text, side = found.shown[number], found.asked[number].side
    alone = Text("文本", "Text") if len(found.asked) == 1 else None
    name = alone or (Text("查询", "Query") if side == QUERY else Text("标题", "Title"))
    lines = [
        TokenLine(
            name=Text(f"jieba {words.zh}", f"jieba {words.en}"),
            tokens=tuple(
                Token(text=one, ends_word=place + 1 in found.ends[number][granularity])
                for place, one in enumerate(text)
            ),
        )
        for granularity, words in GRANULARITIES.items()
    ]
    places = found.places(number)
    lines += [
        _line(found, text, places, voice, rule)
        for voice in _voices(found)
        if voice.turned is None or voice.turned[rule][list(places.values())].any()
    ]
    return Tokens(
        name=f"words_{'query' if side == QUERY else 'title'}",
        title=Text(f"{name.zh}在哪里断词", f"Where the {name.en.lower()} is cut"),
        unit=RATIO,
        lines=tuple(lines),
        scale="diverging",
        low=-_DEEPEST,
        high=_DEEPEST,
        note=Text(
            f"竖线：词尾（{RULES[rule].zh}）。颜色：{RATIO.zh}，大于 0 时文章的规则读作词尾；±{_DEEPEST:g} 之外同色。"
            "没有颜色的位置两边不都是各成一个词元的汉字，不作判断。",
            f"Strokes: word ends ({RULES[rule].en}). Colours: {RATIO.en}; above 0 the article's rule "
            f"sees a word end; beyond ±{_DEEPEST:g} all are alike. Where there is no colour, the two neighbours are not both Chinese "
            "characters that are tokens of their own, and nothing is decided.",
        ),
    )


def _line(found: Words, text: str, places: dict[int, int], voice: _Voice, rule: Rule) -> TokenLine:
    tokens = []
    for place, one in enumerate(text):
        at = places.get(place)
        last = place == len(text) - 1
        if at is None:
            tokens.append(Token(text=one, ends_word=last))
            continue
        said = bool(voice.said[rule][at])
        value, note = None, None
        if voice.head is not None and voice.heard is not None:
            value = _ratio(voice.heard, voice.head, at)
            note = _note(found, voice.heard, voice.head, at, text[place + 1], rule)
        turned = voice.turned is not None and bool(voice.turned[rule][at])
        tokens.append(Token(text=one, value=value, ends_word=said, marked=turned, note=note))
    return TokenLine(name=voice.name, tokens=tuple(tokens))


def _ratio(heard: Heard, head: Head, at: int) -> float:
    return float(heard.weights.features(head.layer)[2, head.head, at])


def _note(found: Words, heard: Heard, head: Head, at: int, right: str, rule: Rule) -> Text:
    """The numbers behind one decision."""
    following, sep = (float(one[head][at]) for one in (heard.weights.next, heard.weights.sep))
    ratio = _ratio(heard, head, at)
    calibrated = found.calibration.calibrated
    said = Text("词尾", "a word ends") if heard.said[rule][head][at] else Text("不断", "no end")
    words, condition = FEATURE_NAMES["ratio"], "> 0"
    if rule == "calibrated":
        words, condition = FEATURE_NAMES[calibrated.feature(head)], calibrated.condition(head)
    return Text(
        f"给“{right}” {following:.3f}，给 [SEP] {sep:.3f}，比的对数 {signed(ratio, 2)} → {said.zh}"
        f"（{words.zh} {condition} 时读作词尾）",
        f"“{right}” {following:.3f}, [SEP] {sep:.3f}, log ratio {signed(ratio, 2)} → {said.en} "
        f"(a word ends where the {words.en} is {condition})",
    )


def _voices(found: Words) -> Iterator[_Voice]:
    """The heads, each followed by itself without the heads left out where that turns anything, and
    their vote."""
    for head in found.heads:
        yield _Voice(str(head), _of(found.before, head), head, found.before)
        if found.after is not None and head in found.moved:
            after = _of(found.after, head)
            turned = {rule: said != found.before.said[rule][head] for rule, said in after.items()}
            if any(one.any() for one in turned.values()):
                name = Text(f"{head}，去掉头之后", f"{head}, heads left out")
                yield _Voice(name, after, head, found.after, turned)
    if len(found.heads) >= LEAST_VOTERS:
        odd = found.heads[: len(found.heads) - 1 + len(found.heads) % 2]
        together = {rule: vote(said, odd) for rule, said in found.before.said.items()}
        yield _Voice(Text(f"前 {len(odd)} 个投票", f"vote of the first {len(odd)}"), together)


def _of(heard: Heard, head: Head) -> dict[Rule, BoolArray]:
    return {rule: said[head] for rule, said in heard.said.items()}


def agreement(found: Words, measure: str) -> HeatMap:
    """How far each voice agrees with jieba on these texts: `accuracy` or `word_f1`, by both rules.

    Under each share stands what it is made of: right decisions out of all; or twice the words found
    out of the words of both.
    """
    columns = [(rule, name) for rule in RULES for name in GRANULARITIES]
    majority = {rule: found.majority for rule in RULES}
    voices = [*_voices(found), _Voice(Text("总猜多数", "majority"), majority)]
    counts = [
        [_counts(found, voice.said[rule], found.labels[name]) for rule, name in columns]
        for voice in voices
    ]
    title, n = MEASURES[measure], len(found.decisions)
    return HeatMap(
        name=f"words_{measure}",
        title=Text(
            f"与 jieba 一致：{title.zh}（{n} 个判断）",
            f"Agreement with jieba: {title.en} ({n} decisions)",
        ),
        x_label=Text("读法 · jieba 的粒度", "reading · jieba's granularity"),
        y_label=Text("谁", "who"),
        unit=SHARE,
        columns=tuple(_both(_SHORT[rule], _SHORT[name]) for rule, name in columns),
        rows=tuple(voice.name for voice in voices),
        values=tuple(tuple(known(float(measured(measure, one))) for one in row) for row in counts),
        annotations=tuple(tuple(_base(measure, one) for one in row) for row in counts),
        low=0.0,
        high=1.0,
    )


def _counts(found: Words, said: BoolArray, labels: BoolArray) -> FloatArray:
    return counts_of(said, labels, found.decisions).sum(axis=0)


def _base(measure: str, counts: FloatArray) -> str:
    if measure == "accuracy":
        return f"{counts[HIT] + counts[TRUE_NO]:.0f}/{counts[ENDS] + counts[GOES_ON]:.0f}"
    return f"{2 * counts[WORDS_HIT]:.0f}/{counts[WORDS] + counts[WORDS_SAID]:.0f}"


def _both(one: Text, other: Text) -> Text:
    return Text(f"{one.zh} · {other.zh}", f"{one.en} · {other.en}")


def side_by_side(models: Sequence[Words]) -> Bars:
    """The same heads in several models, each by its own calibrated reading: accuracy on these texts."""
    first = models[0]
    n = len(first.decisions)
    return Bars(
        name="words_models",
        title=Text(
            f"同样的头，微调前后与 jieba 精确模式一致的比例（{n} 个判断）",
            f"The same heads in both models: agreement with jieba's precise mode ({n} decisions)",
        ),
        x_label=Text("头", "head"),
        y_label=ACCURACY,
        unit=SHARE,
        categories=tuple(map(str, first.heads)),
        series=tuple(
            BarSeries(name=one.model, values=tuple(_accuracy(one, head) for head in first.heads))
            for one in models
        ),
        note=Text(
            "每个模型的读法各自在随附的 dev 上校准",
            "Each model's readings are calibrated on the dev pairs that ship, for itself",
        ),
    )


def _accuracy(found: Words, head: Head) -> float | None:
    said = found.before.said["calibrated"][head]
    return known(float(measured("accuracy", _counts(found, said, found.labels[PRECISE]))))
