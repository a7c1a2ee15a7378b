"""Where heads end the words of a text, beside jieba, and how far they agree."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.tokenise import QUERY
from qt_bert.data.tokenise import TITLE as TOKENISE_TITLE
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens, known
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.inspected import Inspected, in_turns
from qt_bert.models.heads import Head, checked_heads
from qt_bert.probes.boundary import (
    ENDS,
    FEATURES,
    FULL,
    GOES_ON,
    HIT,
    LEAST_DECISIONS,
    PRECISE,
    SEARCH,
    TRUE_NO,
    WORDS,
    WORDS_HIT,
    WORDS_SAID,
    Asked,
    Calibrated,
    Decisions,
    Weights,
    asked_of,
    calibrate,
    counts_of,
    decisions_of,
    granularities,
    measured,
    weights_of,
)
from qt_bert.probes.contests import few_a_query
from qt_bert.probes.naming import ranked
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import Stability, set_label
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.text import Label, Text, signed

# How heads are read as word ends: their attention at each decision, thresholds set on what ships.


MOST_KEPT = 6
"""Models whose readings are kept."""
TURN_TOKENS = 512
"""Tokens of the calibration that one turn computes: others wait for 0.1 s of it at most."""

_NAME = "boundary"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Every head's reading on the dev pairs that ship, as the study of word boundaries sets it.

    `best` are all heads by their balanced accuracy there, `majority` whether most of these decisions
    are word ends, `texts` what was read: a text among them is no test of the readings.
    """

    calibrated: Calibrated
    best: tuple[Head, ...]
    majority: bool
    pairs: int
    decisions: int
    texts: frozenset[str]


def weights_under(
    inspected: Inspected, decisions: Decisions, variants: Sequence[Variant] = (NONE,)
) -> list[Weights]:
    """What every head gives at each decision, under each variant; a visitor's turn a pair.

    `Weights.own`, which no reading needs, is unknown (NaN).
    """
    shape = inspected.shape
    found = np.zeros((2, len(variants), *shape.size, len(decisions)), np.float32)
    reduction = Reduction(_NAME, "attention", tuple(range(shape.layers)), _next_and_sep)
    for row, pair in enumerate(decisions.pairs):
        own = np.flatnonzero(decisions.pair == row)
        if own.size:
            seen = inspected.run([pair], variants, [reduction]).reduced[_NAME][:, 0]
            found[..., own] = np.moveaxis(seen[:, :, :, decisions.token[own]], -1, 0)
    unknown = np.full(shape.size, np.nan)
    return [Weights(following, sep, unknown) for following, sep in zip(*found, strict=True)]


def _next_and_sep(view: View) -> torch.Tensor:
    """Of one pair, what each token gives the next one and all separators [1, heads, L − 1, 2]."""
    (encoded,) = view.batch.encoded
    following = view.values.diagonal(1, -2, -1)
    separators = view.values[..., :-1, encoded.separators].sum(-1)
    return torch.stack([following, separators], -1).float()


def calibration_of(inspected: Inspected) -> Calibration:
    """The readings of a model's heads, made once a model; whoever asks for them meanwhile waits."""
    found: Calibration | None = _kept_readings.find(inspected.key)
    if found is not None:  # also while another model is calibrated
        return found
    with _lock:
        return _kept_readings.get(inspected.key, lambda: _calibrate(inspected))


_lock = threading.Lock()
_kept_readings = Kept(MOST_KEPT)


def _calibrate(inspected: Inspected) -> Calibration:
    """The study's own sample and search, without its tests."""
    pairs = few_a_query(shipped_rows("dev"))
    asked = asked_of(pairs)
    decisions = decisions_of(inspected.scorer.tokenizer, asked, least=LEAST_DECISIONS)
    labels = decisions.labels(granularities(inspected.segmenter)[PRECISE])
    with in_turns(inspected.scorer, inspected.turns, TURN_TOKENS) as scorer:
        weights = weights_of(scorer, decisions)
    calibrated = calibrate(weights, decisions, labels, shifts=0, seed=0)
    return Calibration(
        # What the queries say one by one is for tests, and grows with the model.
        replace(calibrated, per_query=calibrated.per_query[:0]),
        tuple(ranked(calibrated.named.score)),
        bool(labels.size) and bool(labels.mean() >= 0.5),
        len(pairs),
        len(decisions),
        frozenset(one.text for one in asked),
    )


# Where heads end the words of a text, beside jieba's three granularities, and how far they agree.


Rule = Literal["calibrated", "article"]
"""A head's own reading (what is looked at, threshold, side), or the article's rule (2.2)."""

RULES: dict[Rule, Text] = {
    "calibrated": Text("校准的读法", "calibrated reading"),
    "article": Text("文章的规则", "article's rule"),
}
MOST_HEADS = 12
"""Heads shown at a time."""


@dataclass(frozen=True, eq=False)
class Heard:
    """What all heads say of D decisions under one variant: their weights, and whether a word ends
    by each rule [layers, heads, D]."""

    weights: Weights
    said: dict[Rule, BoolArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """One model on a few texts.

    `asked` are the texts, `shown` what the model reads of each; `decisions` holds those that have
    any. `labels` are jieba's answers by granularity [D], `ends` its word ends in each text. `before`
    and, where heads are left out, `after`; `moved` are those of `heads` that stand above one left
    out, so that they may change. `cut` says that a text is longer than the model reads, `known` that
    one was among those the readings were set on.
    """

    model: str
    asked: tuple[Asked, ...]
    shown: tuple[str, ...]
    decisions: Decisions
    labels: dict[str, BoolArray]
    ends: tuple[dict[str, set[int]], ...]
    heads: tuple[Head, ...]
    calibration: Calibration
    before: Heard
    after: Heard | None
    moved: tuple[Head, ...]
    cut: bool
    known: bool

    @property
    def majority(self) -> BoolArray:
        """The commoner answer of the calibration's decisions, everywhere [D]."""
        return np.full(len(self.decisions), self.calibration.majority)

    def places(self, number: int) -> dict[int, int]:
        """Of the text `number` of `asked`: place of a left character → its decision."""
        kept = [n for n, one in enumerate(self.decisions.asked) if one == self.asked[number]]
        found = np.flatnonzero(np.isin(self.decisions.text, kept))
        return {int(self.decisions.place[at]): int(at) for at in found}


def texts_asked(query: str, title: str, instead: str = "") -> list[Asked]:
    """The query and the title of a pair; or the text `instead` alone, read in the title's place."""
    if instead:
        return [Asked(instead, (query, instead), TOKENISE_TITLE, query)]
    pair = (query, title)
    return [Asked(query, pair, QUERY, query), Asked(title, pair, TOKENISE_TITLE, query)]


def words(
    inspected: Inspected,
    asked: Sequence[Asked],
    heads: Sequence[Head] = (),
    out: Sequence[Head] = (),
    mode: str = "zero",
) -> Words:
    """Read `asked`, which are sides of one pair, by `heads` (by default the best on calibration).

    Where heads are left `out`, what the others say then stands beside what they say else. Raises
    ArgumentError for heads that the model lacks.
    """
    calibration = calibration_of(inspected)
    chosen = tuple(dict.fromkeys(heads)) or calibration.best
    chosen = tuple(checked_heads(chosen[:MOST_HEADS], inspected.shape))
    decisions = decisions_of(inspected.scorer.tokenizer, asked)
    references = granularities(inspected.segmenter)
    shown = [_read(inspected, one) for one in asked]
    weights = _weights(inspected, decisions, tuple(sorted(out)), mode)
    heard = [_heard(one, calibration) for one in weights]
    lowest = min((head.layer for head in out), default=inspected.shape.layers)
    return Words(
        model=inspected.name,
        asked=tuple(asked),
        shown=tuple(shown),
        decisions=decisions,
        labels={name: decisions.labels(ends) for name, ends in references.items()},
        ends=tuple({name: ends(text) for name, ends in references.items()} for text in shown),
        heads=chosen,
        calibration=calibration,
        before=heard[0],
        after=heard[1] if out else None,
        moved=tuple(head for head in chosen if head.layer > lowest),
        cut=any(len(text) < len(one.text) for text, one in zip(shown, asked, strict=True)),
        known=any(one.text in calibration.texts for one in asked),
    )


_kept_words = Kept()


def _weights(
    inspected: Inspected, decisions: Decisions, out: tuple[Head, ...], mode: str
) -> list[Weights]:
    """With all heads and, where some are left out, without them; kept for the next click."""

    def run() -> list[Weights]:
        part = inspected.part(out, mode)
        variants = [NONE, Variant("out", (part,))] if part else [NONE]
        return weights_under(inspected, decisions, variants)

    key = (inspected.key, decisions.asked, out, mode if out else "")
    return _kept_words.get(key, run)


def _heard(weights: Weights, calibration: Calibration) -> Heard:
    said: dict[Rule, BoolArray] = {
        "calibrated": calibration.calibrated.say(weights),
        "article": weights.rule(),
    }
    return Heard(weights, said)


def _read(inspected: Inspected, one: Asked) -> str:
    """As much of a text as the model reads."""
    encoded = inspected.encode(*one.pair)
    cut = encoded.query_truncated if one.side == QUERY else encoded.title_truncated
    if not cut:
        return one.text
    own = zip(encoded.side, encoded.spans, strict=True)
    return one.text[: max((end for side, (_, end) in own if side == one.side), default=0)]


# The pictures of where heads end words: rows of text, agreement with jieba, two models side by
# side.


RATIO = Text(
    "ln(给 [SEP] 的权重 / 给下一个字的权重)", "ln(weight on [SEP] / weight on the next character)"
)
SHARE = Text("比例", "share")
MEASURES = {name: texts_of("boundary").text(f"words.{name}") for name in ("accuracy", "word_f1")}
GRANULARITIES = {
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索（最细）", "search (finest)"),
    FULL: Text("全模式（最粗）", "full (coarsest)"),
}
FEATURE_NAMES = {
    "next": Text("给下一个字的权重", "weight on the next character"),
    "sep": Text("给 [SEP] 的权重", "weight on [SEP]"),
    "ratio": Text(
        "给 [SEP] 与给下一个字的权重之比的对数",
        "log of the weight on [SEP] over that on the next character",
    ),
}
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
    """Someone who says where words end; `head` and `heard` are None for whom no head speaks."""

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
    said = Text("词尾", "a word ends") if heard.said[rule][head][at] else Text("不断", "no end")
    words, condition = FEATURE_NAMES["ratio"], "> 0"
    if rule == "calibrated":
        words, condition = _reading(found.calibration.calibrated, head)
    return Text(
        f"给“{right}” {following:.3f}，给 [SEP] {sep:.3f}，比的对数 {signed(ratio, 2)} → {said.zh}"
        f"（{words.zh} {condition} 时读作词尾）",
        f"“{right}” {following:.3f}, [SEP] {sep:.3f}, log ratio {signed(ratio, 2)} → {said.en} "
        f"(a word ends where the {words.en} is {condition})",
    )


def _reading(calibrated: Calibrated, head: Head) -> tuple[Text, str]:
    """What a head is read by, and where that means a word end, as in `> -0.31`."""
    one = calibrated.readings[head.layer]
    sign = ">" if one.high[head.head] else "≤"
    name = FEATURES[one.feature[head.head]]
    return FEATURE_NAMES[name], f"{sign} {one.threshold[head.head]:.3g}"


def _voices(found: Words) -> Iterator[_Voice]:
    """The heads, each followed by itself without the heads left out where that turns anything."""
    for head in found.heads:
        yield _Voice(str(head), _of(found.before, head), head, found.before)
        if found.after is not None and head in found.moved:
            after = _of(found.after, head)
            turned = {rule: said != found.before.said[rule][head] for rule, said in after.items()}
            if any(one.any() for one in turned.values()):
                name = Text(f"{head}，去掉头之后", f"{head}, heads left out")
                yield _Voice(name, after, head, found.after, turned)


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
        y_label=MEASURES["accuracy"],
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


# What the page of words says.


TITLE = Text("词：注意力头在哪里断词", "Words: where heads end them")
INTRO = Text(
    "文章（2.2）：有些头看得出词在哪里结束，一个字若是词尾，就看 [SEP]，否则看下一个字。下面各行是同一段"
    "文本，先由 jieba 断词，再由每个头断词。指到一个字上，可看判断背后的数。",
    "The article (2.2): some heads know where words end; a character that ends one looks at [SEP], "
    "else at the next character. Below is one text a row, cut by jieba, then by every head. Point at "
    "a character for the numbers behind its decision.",
)
TYPED = Text("也可以输入任意文本（代替句对）", "Or any text, in place of the pair")
TYPED_HELP = Text(
    "文本接在左栏的查询之后、标题的位置上读；它不在链接里。",
    "It is read after the query on the left, where the title stands; no link holds it.",
)
RULE = Text("怎样读", "Read by")
RULE_HELP = Text(
    "校准的读法：每个头看什么、阈值多少、哪一边算词尾，都在随附的 dev 上定。文章的规则：给 [SEP] 的权重大于"
    "给下一个字的，就是词尾。",
    "Calibrated: what is looked at, the threshold and the side are set for each head on the dev pairs "
    "that ship. The article's rule: a word ends where [SEP] weighs more than the next character.",
)
WHO = Text("哪些头", "Heads")
SETS = ("boundary",)
"""Sets of a study that the page offers."""
BEST, OWN = "best", "own"
MAY = Text(f"注意力头（至多 {MOST_HEADS} 个）", f"Heads ({MOST_HEADS} at most)")
BESIDE = Text("与微调前并列", "Beside the model before fine-tuning")
CREDIT = Text(
    "文章把断词的本领归于预训练：若如此，微调前的同一个头应当也会。",
    "The article credits pretraining: then the same head should know before fine-tuning, too.",
)
WORKING = Text(
    "正在读取注意力（首次要校准各头的读法）…", "Reading attention (first calibrating heads)…"
)
NOTHING = Text(
    "这里没有相邻且各成一个词元的汉字，没有可判断的地方。",
    "No two neighbours here are Chinese characters that are tokens of their own: nothing to decide.",
)
CUT = Text(
    "文本超出模型的长度，只显示读到的部分。",
    "The text is too long: what the model reads is shown.",
)
KNOWN = Text(
    "这段文本也在校准所用的文本里，因此不能检验校准的读法。",
    "This text is among those of the calibration, so it is no test of the calibrated readings.",
)
STILL = Text(
    "去掉的头不在这些头之下，不可能改变它们的注意力。",
    "No head left out lies below these: it cannot change what they look at.",
)
TURNED = Text(
    "去掉左栏的头之后断法变了的头另有一行，变了的地方加框；没有第二行的，断法不变。",
    "A head that decides otherwise without the heads left out on the left has a second line, the "
    "changes outlined; one without it decides as before.",
)

_NAMES: Mapping[str, Text] = {
    BEST: Text("校准时最准的头", "best on calibration"),
    OWN: Text("自选", "of your own"),
}


def who_name(name: str, stability: Mapping[str, Stability] | None = None) -> Text:
    """What a choice of heads is called: one of `SETS`, `BEST` or `OWN`."""
    return _NAMES[name] if name in _NAMES else set_label(name, stability or {})


def notes(found: Words) -> Iterator[Text]:
    """What the readings rest on, and what keeps them from saying more."""
    n, basis = len(found.decisions), found.calibration
    yield (
        NOTHING
        if not n
        else Text(
            f"{n} 个判断（相邻的汉字）。读法在随附的 dev 上校准：{basis.pairs} 对，{basis.decisions:,} 个判断。",
            f"{n} decisions (neighbouring Chinese characters). Readings are calibrated on the dev pairs "
            f"that ship: {basis.pairs} pairs, {basis.decisions:,} decisions.",
        )
    )
    if found.cut:
        yield CUT
    if found.known:
        yield KNOWN
    if found.after is not None:
        yield TURNED if found.moved else STILL
