"""Words: where heads end the words of a text, beside jieba, and how far they agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import streamlit as st
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import caption, named, say
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens, known
from qt_bert.inspection.inputs import clean_texts, shipped_rows
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import plain_and_without
from qt_bert.inspection.work import SharedScorer
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
from qt_bert.results.probe import set_label
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.text import Label, Text, signed

# A head's own reading (what is looked at, threshold, side), or the article's rule (2.2).
RULES = {
    "calibrated": Text("校准的读法", "calibrated reading"),
    "article": Text("文章的规则", "article's rule"),
}
GRANULARITIES = {
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索（最细）", "search (finest)"),
    FULL: Text("全模式（最粗）", "full (coarsest)"),
}
# What stands over narrow columns.
SHORT: Mapping[str, Text] = {
    "calibrated": Text("校准", "calibrated"),
    "article": Text("规则", "rule"),
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索", "search"),
    FULL: Text("全", "full"),
}
MEASURES = {name: texts_of("boundary").text(f"words.{name}") for name in ("accuracy", "word_f1")}
RATIO = Text(
    "ln(给 [SEP] 的权重 / 给下一个字的权重)", "ln(weight on [SEP] / weight on the next character)"
)
FEATURE_NAMES = {
    "next": Text("给下一个字的权重", "weight on the next character"),
    "sep": Text("给 [SEP] 的权重", "weight on [SEP]"),
    "ratio": Text(
        "给 [SEP] 与给下一个字的权重之比的对数",
        "log of the weight on [SEP] over that on the next character",
    ),
}
MOST_HEADS = 12
# Beyond this log ratio colours do not change, so that two models can be compared.
DEEPEST = 4.0
CALIBRATION_TOKENS = 512
# Which heads: the set that a study found, the best on calibration, a choice of the visitor's.
SET, BEST, OWN = "boundary", "best", "own"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Every head's reading on the dev pairs that ship, as the probe `boundary` sets it.

    `best` are all heads by their balanced accuracy there, `majority` whether most of these decisions
    are word ends, `texts` what was read: a text among them is no test of the readings.
    """

    calibrated: Calibrated
    best: tuple[Head, ...]
    majority: bool
    pairs: int
    decisions: int
    texts: frozenset[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """One model on a few texts.

    `asked` are the texts, `shown` what the model reads of each; `decisions` holds those that have
    any. `labels` are jieba's answers by granularity [D], `ends` its word ends in each text. `weights`
    and `said` (rule → whether a word ends [layers, heads, D]) are of the whole model and, where heads
    are left out, without them; `moved` are those of `heads` that stand above one left out.
    """

    model: str
    asked: tuple[Asked, ...]
    shown: tuple[str, ...]
    decisions: Decisions
    labels: dict[str, BoolArray]
    ends: tuple[dict[str, set[int]], ...]
    heads: tuple[Head, ...]
    calibration: Calibration
    weights: list[Weights]
    said: list[dict[str, BoolArray]]
    moved: tuple[Head, ...]


class Reader(NamedTuple):
    """A head in one way (0: the whole model, 1: without heads), and its decisions by rule [D].

    `turned` are those that differ without the heads left out. No `head`: the commoner answer.
    """

    name: Label
    said: dict[str, BoolArray]
    head: Head | None = None
    way: int = 0
    turned: dict[str, BoolArray] | None = None


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(say("词：注意力头在哪里断词", "Words: where heads end them"))
    caption(
        "文章（2.2）：有些头看得出词在哪里结束，一个字若是词尾，就看 [SEP]，否则看下一个字。下面各行是"
        "同一段文本，先由 jieba 断词，再由每个头断词。指到一个字上，可看判断背后的数。",
        "The article (2.2): some heads know where words end; a character that ends one looks at "
        "[SEP], else at the next character. Below is one text a row, cut by jieba, then by every "
        "head. Point at a character for the numbers behind its decision.",
    )
    found, rule = _asked(here)
    for note in notes(found, bool(here.state.out)):
        caption(note)
    if not len(found.decisions):
        return
    models = [found]
    beside = Text("与微调前并列", "Beside the model before fine-tuning")
    if here.base is not None and st.toggle(say(beside), value=True, key="words.base"):
        models.append(_read(here, here.base, found.asked, found.heads))
    for column, one in zip(st.columns(len(models)), models, strict=True):
        with column:
            st.text(one.model)
            for number in range(len(one.asked)):
                figure = text_figure(one, number, rule)
                draw(figure, key=f"words.{one.model}.{figure.name}")
    if len(models) > 1:
        draw(side_by_side(models), key="words.models")
    for measure in MEASURES:
        draw(agreement(found, measure), key=f"words.{measure}")


def _asked(here: Here) -> tuple[Words, str]:
    """The texts, heads and rule that the visitor asks for, read."""
    state = here.state
    typed = st.text_input(
        say("也可以输入任意文本（代替句对）", "Or any text, in place of the pair"),
        key="words.typed",
        max_chars=500,
        help=say(
            "文本接在左栏的查询之后、标题的位置上读；它不在链接里。",
            "It is read after the query on the left, where the title stands; no link holds it.",
        ),
    )
    rule = st.radio(
        say("怎样读", "Read by"),
        list(RULES),
        format_func=named(RULES),
        help=say(
            "校准的读法：每个头看什么、阈值多少、哪一边算词尾，都在随附的 dev 上定。文章的规则：给 [SEP] 的"
            "权重大于给下一个字的，就是词尾。",
            "Calibrated: what is looked at, the threshold and the side are set for each head on the dev "
            "pairs that ship. The article's rule: a word ends where [SEP] weighs more than the next "
            "character.",
        ),
        horizontal=True,
        key="words.rule",
    )
    instead = clean_texts(state.query, typed)[1].strip()
    return _read(
        here, here.model, texts_asked(state.query, state.title, instead), _heads(here)
    ), rule


def _heads(here: Here) -> Sequence[Head]:
    """The heads to read by; none for the best on calibration."""
    studied = here.studied
    found = studied.sets.get(SET, ()) if studied else ()
    names = {
        SET: set_label(SET, studied.stability if studied else {}),
        BEST: Text("校准时最准的头", "best on calibration"),
        OWN: Text("自选", "of your own"),
    }
    who = st.radio(
        say("哪些头", "Heads"),
        [name for name in names if name != SET or found],
        format_func=named(names),
        horizontal=True,
        key="words.who",
    )
    if who != OWN:
        return found if who == SET else ()
    chosen: list[Head] = st.multiselect(
        say(f"注意力头（至多 {MOST_HEADS} 个）", f"Heads ({MOST_HEADS} at most)"),
        here.model.shape.all_heads,
        default=[here.state.chosen],
        max_selections=MOST_HEADS,
        key=f"words.own.{here.state.model}",
    )
    return chosen


def _read(here: Here, model: Inspected, asked: Sequence[Asked], heads: Sequence[Head]) -> Words:
    working = Text(
        "正在读取注意力（首次要校准各头的读法）…", "Reading attention (first calibrating heads)…"
    )
    with st.spinner(say(working)):
        return words(model, asked, heads, here.state.out, here.state.mode)


def texts_asked(query: str, title: str, instead: str = "") -> list[Asked]:
    """The query and the title of a pair; or the text `instead` alone, read in the title's place."""
    if instead:
        return [Asked(instead, (query, instead), TITLE, query)]
    pair = (query, title)
    return [Asked(query, pair, QUERY, query), Asked(title, pair, TITLE, query)]


def calibration_of(model: Inspected) -> Calibration:
    """The readings of a model's heads, made once: the probe's own sample and search, without tests."""

    def made() -> Calibration:
        pairs = few_a_query(shipped_rows("dev"))
        asked = asked_of(pairs)
        decisions = decisions_of(model.scorer.tokenizer, asked, least=LEAST_DECISIONS)
        labels = decisions.labels(granularities(model.segmenter)[PRECISE])
        weights = weights_of(SharedScorer(model.scorer, model.lock, CALIBRATION_TOKENS), decisions)
        found = calibrate(weights, decisions, labels, shifts=0, seed=0)
        return Calibration(
            # What the queries say one by one is for tests, and grows with the model.
            replace(found, per_query=found.per_query[:0]),
            tuple(ranked(found.named.score)),
            bool(labels.size) and bool(labels.mean() >= 0.5),
            len(pairs),
            len(decisions),
            frozenset(one.text for one in asked),
        )

    with model.making:  # whoever asks for it meanwhile waits
        return model.kept.get("calibration", made)


def words(
    model: Inspected,
    asked: Sequence[Asked],
    heads: Sequence[Head] = (),
    out: Sequence[Head] = (),
    mode: str = "zero",
) -> Words:
    """Read `asked`, which are sides of one pair, by `heads` (by default the best on calibration).

    Where heads are left `out`, what the others say then stands beside. Raises ArgumentError for heads
    that the model lacks.
    """
    calibration = calibration_of(model)
    chosen = (tuple(dict.fromkeys(heads)) or calibration.best)[:MOST_HEADS]
    decisions = decisions_of(model.scorer.tokenizer, asked)
    references = granularities(model.segmenter)
    shown = tuple(_shown(model, one) for one in asked)
    key = ("words", decisions.asked, tuple(out), mode if out else "")
    weights = model.kept.get(key, lambda: _weights(model, decisions, out, mode))
    lowest = min((head.layer for head in out), default=model.shape.layers)
    return Words(
        model=model.name,
        asked=tuple(asked),
        shown=shown,
        decisions=decisions,
        labels={name: decisions.labels(ends) for name, ends in references.items()},
        ends=tuple({name: ends(text) for name, ends in references.items()} for text in shown),
        heads=tuple(checked_heads(chosen, model.shape)),
        calibration=calibration,
        weights=weights,
        said=[
            {"calibrated": calibration.calibrated.say(one), "article": one.rule()}
            for one in weights
        ],
        moved=tuple(head for head in chosen if head.layer > lowest),
    )


def _weights(
    model: Inspected, decisions: Decisions, out: Sequence[Head], mode: str
) -> list[Weights]:
    """What every head gives the next character and [SEP] at each decision, in each way."""
    variants = plain_and_without(model, out, mode)
    shape = model.shape
    found = np.zeros((2, len(variants), *shape.size, len(decisions)), np.float32)
    reduction = Reduction("words", "attention", tuple(range(shape.layers)), _next_and_sep)
    for row, pair in enumerate(decisions.pairs):
        own = np.flatnonzero(decisions.pair == row)
        if own.size:
            seen = model.run([pair], variants, [reduction]).reduced["words"][:, 0]
            found[..., own] = np.moveaxis(seen[:, :, :, decisions.token[own]], -1, 0)
    unknown = np.full(shape.size, np.nan)  # `own`, which no reading needs
    return [Weights(following, sep, unknown) for following, sep in zip(*found, strict=True)]


def _next_and_sep(view: View) -> torch.Tensor:
    """Of one pair, what each token gives the next one and all separators [1, heads, L − 1, 2]."""
    (encoded,) = view.batch.encoded
    following = view.values.diagonal(1, -2, -1)
    separators = view.values[..., :-1, encoded.separators].sum(-1)
    return torch.stack([following, separators], -1).float()


def _shown(model: Inspected, one: Asked) -> str:
    """As much of a text as the model reads."""
    encoded = model.encode(*one.pair)
    cut = encoded.query_truncated if one.side == QUERY else encoded.title_truncated
    if not cut:
        return one.text
    own = zip(encoded.side, encoded.spans, strict=True)
    return one.text[: max((end for side, (_, end) in own if side == one.side), default=0)]


def notes(found: Words, without: bool) -> Iterator[Text]:
    """What the readings rest on, and what keeps them from saying more."""
    n, basis = len(found.decisions), found.calibration
    if not n:
        yield Text(
            "这里没有相邻且各成一个词元的汉字，没有可判断的地方。",
            "No two neighbours here are Chinese characters that are tokens of their own: nothing to decide.",
        )
    else:
        yield Text(
            f"{n} 个判断（相邻的汉字）。读法在随附的 dev 上校准：{basis.pairs} 对，{basis.decisions:,} 个判断。",
            f"{n} decisions (neighbouring Chinese characters). Readings are calibrated on the dev pairs "
            f"that ship: {basis.pairs} pairs, {basis.decisions:,} decisions.",
        )
    if any(len(text) < len(one.text) for text, one in zip(found.shown, found.asked, strict=True)):
        yield Text(
            "文本超出模型的长度，只显示读到的部分。",
            "The text is too long: what the model reads is shown.",
        )
    if any(one.text in basis.texts for one in found.asked):
        yield Text(
            "这段文本也在校准所用的文本里，因此不能检验校准的读法。",
            "This text is among those of the calibration, so it is no test of the calibrated readings.",
        )
    if without and found.moved:
        yield Text(
            "去掉左栏的头之后断法变了的头另有一行，变了的地方加框；没有第二行的，断法不变。",
            "A head that decides otherwise without the heads left out on the left has a second line, the "
            "changes outlined; one without it decides as before.",
        )
    elif without:
        yield Text(
            "去掉的头不在这些头之下，不可能改变它们的注意力。",
            "No head left out lies below these: it cannot change what they look at.",
        )


def readers(found: Words) -> Iterator[Reader]:
    """The heads, each followed by itself without the heads left out where that turns anything."""
    for head in found.heads:
        whole, *without = ({rule: one[head] for rule, one in said.items()} for said in found.said)
        yield Reader(str(head), whole, head)
        if without and head in found.moved:
            (after,) = without
            turned = {rule: said != whole[rule] for rule, said in after.items()}
            if any(one.any() for one in turned.values()):
                name = Text(f"{head}，去掉头之后", f"{head}, heads left out")
                yield Reader(name, after, head, 1, turned)


def text_figure(found: Words, number: int, rule: str) -> Tokens:
    """The text `number`: jieba's three granularities, then every head, read by `rule`."""
    text, side = found.shown[number], found.asked[number].side
    name = Text("查询", "Query") if side == QUERY else Text("标题", "Title")
    if len(found.asked) == 1:
        name = Text("文本", "Text")
    kept = [n for n, one in enumerate(found.decisions.asked) if one == found.asked[number]]
    at = np.flatnonzero(np.isin(found.decisions.text, kept)).tolist()
    places = {int(found.decisions.place[one]): one for one in at}
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
    lines += [
        TokenLine(
            name=one.name,
            tokens=tuple(_token(found, one, rule, text, at, places) for at in range(len(text))),
        )
        for one in readers(found)
        if one.turned is None or one.turned[rule][at].any()
    ]
    return Tokens(
        name=f"words_{'query' if side == QUERY else 'title'}",
        title=Text(f"{name.zh}在哪里断词", f"Where the {name.en.lower()} is cut"),
        unit=RATIO,
        lines=tuple(lines),
        scale="diverging",
        low=-DEEPEST,
        high=DEEPEST,
        note=Text(
            f"竖线：词尾（{RULES[rule].zh}）。颜色：{RATIO.zh}，大于 0 时文章的规则读作词尾；±{DEEPEST:g} 之外同色。"
            "没有颜色的位置两边不都是各成一个词元的汉字，不作判断。",
            f"Strokes: word ends ({RULES[rule].en}). Colours: {RATIO.en}; above 0 the article's rule sees "
            f"a word end; beyond ±{DEEPEST:g} all are alike. Where there is no colour, the two neighbours "
            "are not both Chinese characters that are tokens of their own, and nothing is decided.",
        ),
    )


def _token(
    found: Words, reader: Reader, rule: str, text: str, place: int, places: dict[int, int]
) -> Token:
    """One character: whether a word ends with it, and the numbers behind the decision."""
    at, head = places.get(place), reader.head
    if at is None or head is None:
        return Token(text=text[place], ends_word=place == len(text) - 1)
    weights, said = found.weights[reader.way], bool(reader.said[rule][at])
    ratio = float(weights.features(head.layer)[2, head.head, at])
    following, sep = float(weights.next[head][at]), float(weights.sep[head][at])
    feature, condition = FEATURE_NAMES["ratio"], "> 0"
    if rule == "calibrated":
        reading = found.calibration.calibrated.readings[head.layer]
        feature = FEATURE_NAMES[FEATURES[reading.feature[head.head]]]
        condition = f"{'>' if reading.high[head.head] else '≤'} {reading.threshold[head.head]:.3g}"
    answer = Text("词尾", "a word ends") if said else Text("不断", "no end")
    note = Text(
        f"给“{text[place + 1]}” {following:.3f}，给 [SEP] {sep:.3f}，比的对数 {signed(ratio, 2)} → "
        f"{answer.zh}（{feature.zh} {condition} 时读作词尾）",
        f"“{text[place + 1]}” {following:.3f}, [SEP] {sep:.3f}, log ratio {signed(ratio, 2)} → "
        f"{answer.en} (a word ends where the {feature.en} is {condition})",
    )
    turned = reader.turned is not None and bool(reader.turned[rule][at])
    return Token(text=text[place], value=ratio, ends_word=said, marked=turned, note=note)


def agreement(found: Words, measure: str) -> HeatMap:
    """How far each reader agrees with jieba on these texts: `accuracy` or `word_f1`, by both rules.

    Under each share stands what it is made of: right decisions out of all; or twice the words found
    out of the words of both.
    """
    columns = [(rule, name) for rule in RULES for name in GRANULARITIES]
    commoner = np.full(len(found.decisions), found.calibration.majority)
    every = [*readers(found), Reader(Text("总猜多数", "majority"), dict.fromkeys(RULES, commoner))]
    counts = [
        [_counts(found, one.said[rule], found.labels[name]) for rule, name in columns]
        for one in every
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
        unit=Text("比例", "share"),
        columns=tuple(
            Text(f"{SHORT[r].zh} · {SHORT[n].zh}", f"{SHORT[r].en} · {SHORT[n].en}")
            for r, n in columns
        ),
        rows=tuple(one.name for one in every),
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


def side_by_side(models: Sequence[Words]) -> Bars:
    """The same heads in several models, each by its own calibrated reading: accuracy on these texts."""
    heads, n = models[0].heads, len(models[0].decisions)

    def accuracy(one: Words, head: Head) -> float | None:
        counts = _counts(one, one.said[0]["calibrated"][head], one.labels[PRECISE])
        return known(float(measured("accuracy", counts)))

    return Bars(
        name="words_models",
        title=Text(
            f"同样的头，微调前后与 jieba 精确模式一致的比例（{n} 个判断）",
            f"The same heads in both models: agreement with jieba's precise mode ({n} decisions)",
        ),
        x_label=Text("头", "head"),
        y_label=MEASURES["accuracy"],
        unit=Text("比例", "share"),
        categories=tuple(map(str, heads)),
        series=tuple(
            BarSeries(name=one.model, values=tuple(accuracy(one, head) for head in heads))
            for one in models
        ),
        note=Text(
            "文章把断词的本领归于预训练：若如此，微调前的同一个头应当也会。每个模型的读法各自校准",
            "The article credits pretraining: then the same head should know before fine-tuning, too. Each "
            "model's readings are calibrated for itself",
        ),
    )


if __name__ == "__main__":
    main()
