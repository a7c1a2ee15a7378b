"""Words: where heads end the words of a text, beside jieba."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.figures import Token, TokenLine, Tokens
from qt_bert.heads import Head, checked_heads
from qt_bert.page.figures import draw
from qt_bert.page.maps import plain_and_without
from qt_bert.page.model import SharedModel, SharedScorer
from qt_bert.page.pairs import shipped_rows
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, choose, info, localised
from qt_bert.probes.boundary import (
    FULL,
    LEAST_DECISIONS,
    PRECISE,
    SEARCH,
    Calibrated,
    Decisions,
    PairText,
    Weights,
    calibrate,
    decisions_of,
    distinct_texts,
    granularities,
    lacking,
    weights_of,
)
from qt_bert.probes.contests import few_a_query
from qt_bert.probes.naming import ranked
from qt_bert.probes.texts import texts_of
from qt_bert.stats.arrays import BoolArray
from qt_bert.text import Label, Text, signed

# A head's own reading (what is looked at, threshold, side), or the article's rule (2.2).
RULES = {"calibrated": Text("校准", "calibrated"), "article": Text("规则", "rule")}
GRANULARITIES = {
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索", "search"),
    FULL: Text("全", "full"),
}
RATIO = Text(
    "ln(给 [SEP] 的权重 / 给下一个字的权重)", "ln(weight on [SEP] / weight on the next character)"
)
SET, MOST_HEADS, BATCH_TOKENS = "boundary", 12, 512
# Beyond this log ratio colours do not change, so that two models can be compared.
DEEPEST = 4.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Every head's reading on the dev pairs that ship, as the probe `boundary` sets it.

    `best` are all heads by their balanced accuracy there, `texts` what was read: a text among them is
    no test of the readings.
    """

    calibrated: Calibrated
    best: tuple[Head, ...]
    pairs: int
    decisions: int
    texts: frozenset[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """One model on a few texts.

    `asked` are the texts, `shown` what the model reads of each; `decisions` holds those that have
    any. `ends` are jieba's word ends in each text by granularity. `weights` and `said` (rule → whether
    a word ends [layers, heads, D]) are of the whole model and, where heads are left out, without them.
    """

    asked: tuple[PairText, ...]
    shown: tuple[str, ...]
    decisions: Decisions
    ends: tuple[dict[str, set[int]], ...]
    heads: tuple[Head, ...]
    calibration: Calibration
    weights: list[Weights]
    said: list[dict[str, BoolArray]]


def main() -> None:
    """Lay out the page."""
    here = visit()
    here.stop_if_empty()
    st.header(localised("词：注意力头在哪里断词", "Words: where heads end them"))
    caption(
        "文章（2.2）：在有些头里，词尾的字看 [SEP]，别的字看下一个字。每行是同一段文本，由 jieba 或一个头"
        "断词；指到一个字上，可看判断背后的数。",
        "The article (2.2): in some heads a character that ends a word looks at [SEP], else at the "
        "next one. Rows are the same text cut by jieba or by a head; point at a character for the "
        "numbers behind a decision.",
    )
    if (reason := lacking(here.model.scorer)) is not None:
        info(texts_of("boundary").text(f"nothing.{reason}"))
        return
    state = here.state
    rule = choose(Text("怎样读", "Read by"), RULES, "words.rule")
    caption(
        "校准：每个头的读法在随附的 dev 上定。规则（文章）：给 [SEP] 的权重大于给下一个字的，就是词尾。",
        "Calibrated: how each head is read is set on the dev pairs that ship. Rule (the article's): "
        "a word ends where [SEP] weighs more than the next character.",
    )
    working = Text("正在读取注意力…", "Reading attention (first calibrating heads)…")
    with st.spinner(localised(working)):
        calibration_of(here.model)
    heads = _heads(here)
    found = words(here.model, texts_asked(state.query, state.title), heads, state.out, state.mode)
    for note in notes(found, bool(state.out)):
        caption(note)
    if len(found.decisions):
        for number in range(len(found.asked)):
            draw(text_figure(found, number, rule))


def _heads(here: Visit) -> list[Head]:
    """The heads to read by: at first the set that a study found, else the best on calibration."""
    known = here.study.sets.get(SET, ()) if here.study else ()
    first = known or calibration_of(here.model).best
    chosen: list[Head] = st.multiselect(
        localised(f"注意力头（至多 {MOST_HEADS} 个）", f"Heads ({MOST_HEADS} at most)"),
        here.model.shape.all_heads,
        default=first[:MOST_HEADS],
        max_selections=MOST_HEADS,
        key=f"words.heads.{here.state.model}.{bool(known)}",
        help=localised(
            "起先是研究选出的头，否则是校准时最准的头。", "At first those named, else the best."
        ),
    )
    return chosen


def texts_asked(query: str, title: str) -> list[PairText]:
    """The query and the title of a pair."""
    pair = (query, title)
    return [PairText(query, pair, QUERY, query), PairText(title, pair, TITLE, query)]


def calibration_of(model: SharedModel) -> Calibration:
    """The readings of a model's heads, made once: the probe's own sample and search, without tests."""

    def made() -> Calibration:
        pairs = few_a_query(shipped_rows("dev"))
        asked = distinct_texts(pairs)
        decisions = decisions_of(model.scorer.tokenizer, asked, least=LEAST_DECISIONS)
        labels = decisions.labels(granularities(model.segmenter)[PRECISE])
        weights = weights_of(_shared(model), decisions)
        found = calibrate(weights, decisions, labels, shifts=0, seed=0)
        return Calibration(
            # What the queries say one by one is for tests, and grows with the model.
            replace(found, per_query=found.per_query[:0]),
            tuple(ranked(found.named.score)),
            len(pairs),
            len(decisions),
            frozenset(one.text for one in asked),
        )

    with model.computing:  # whoever asks for it meanwhile waits
        return model.cache.get("calibration", made)


def _shared(model: SharedModel) -> SharedScorer:
    """The model's scorer, whose batches are short enough for other visitors."""
    return SharedScorer(model.scorer, model.lock, BATCH_TOKENS)


def words(
    model: SharedModel,
    asked: Sequence[PairText],
    heads: Sequence[Head] = (),
    out: Sequence[Head] = (),
    mode: str = "zero",
) -> Words:
    """Read `asked`, the sides of one pair, by `heads` (by default the best on calibration).

    Where heads are left `out`, what the others say then stands beside. Raises ArgumentError for heads
    that the model lacks.
    """
    calibration = calibration_of(model)
    chosen = (tuple(dict.fromkeys(heads)) or calibration.best)[:MOST_HEADS]
    decisions = decisions_of(model.scorer.tokenizer, asked)
    references = granularities(model.segmenter)
    shown = tuple(_shown(model, one) for one in asked)
    key = ("words", decisions.texts, tuple(out), mode if out else "")

    def made() -> list[Weights]:
        scorer = _shared(model)
        variants = plain_and_without(model, out, mode)
        return [weights_of(scorer, decisions, variant=variant) for variant in variants]

    weights = model.cache.get(key, made)
    return Words(
        asked=tuple(asked),
        shown=shown,
        decisions=decisions,
        ends=tuple({name: ends(text) for name, ends in references.items()} for text in shown),
        heads=tuple(checked_heads(chosen, model.shape)),
        calibration=calibration,
        weights=weights,
        said=[
            {"calibrated": calibration.calibrated.predict(one), "article": one.rule()}
            for one in weights
        ],
    )


def _shown(model: SharedModel, one: PairText) -> str:
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
            "这里没有词元分得开的相邻汉字，没有可判断的地方。",
            "No two neighbours here are Chinese characters that the model's tokens part: nothing to decide.",
        )
        return
    yield Text(
        f"{n} 个判断（相邻的汉字）。读法在随附的 dev 上校准：{basis.pairs} 对，{basis.decisions:,} 个判断。",
        f"{n} decisions (neighbouring Chinese characters). Readings are calibrated on the dev pairs "
        f"that ship: {basis.pairs} pairs, {basis.decisions:,} decisions.",
    )
    if any(len(text) < len(one.text) for text, one in zip(found.shown, found.asked, strict=True)):
        yield Text("文本太长，只显示读到的部分。", "The text is too long: what is read is shown.")
    if any(one.text in basis.texts for one in found.asked):
        yield Text(
            "这段文本也在校准所用的文本里，因此不能检验校准的读法。",
            "This text is among those of the calibration, so it is no test of the calibrated readings.",
        )
    if without:
        yield Text(
            "去掉左栏的头之后断法变了的头另有一行，变了的地方加框。",
            "A head that decides otherwise without the heads left out has a second line, the changes "
            "outlined.",
        )


def text_figure(found: Words, number: int, rule: str) -> Tokens:
    """The text `number`: jieba's three granularities, then every head, read by `rule`."""
    text, side = found.shown[number], found.asked[number].side
    name = Text("查询", "query") if side == QUERY else Text("标题", "title")
    kept = [n for n, one in enumerate(found.decisions.texts) if one == found.asked[number]]
    own = np.flatnonzero(np.isin(found.decisions.text, kept)).tolist()
    places = {int(found.decisions.place[one]): one for one in own}

    def line(name: Label, head: Head, way: int, turned: BoolArray) -> TokenLine:
        tokens = (
            Token(text=one, ends_word=at == len(text) - 1)
            if (decision := places.get(at)) is None
            else _token(found, head, way, rule, decision, text[at : at + 2], bool(turned[decision]))
            for at, one in enumerate(text)
        )
        return TokenLine(name=name, tokens=tuple(tokens))

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
    for head in found.heads:
        turned = found.said[0][rule][head] != found.said[-1][rule][head]
        lines.append(line(str(head), head, 0, np.zeros_like(turned)))
        if turned[own].any():
            without = Text(f"{head}，去掉头之后", f"{head}, heads left out")
            lines.append(line(without, head, 1, turned))
    return Tokens(
        name=f"words_{'query' if side == QUERY else 'title'}",
        title=Text(f"{name.zh}在哪里断词", f"Where the {name.en} is cut"),
        unit=RATIO,
        lines=tuple(lines),
        scale="diverging",
        low=-DEEPEST,
        high=DEEPEST,
        note=Text(
            f"竖线：词尾。颜色：{RATIO.zh}，±{DEEPEST:g} 之外同色；没有颜色的位置不作判断。",
            f"Strokes: word ends. Colours: {RATIO.en}, alike beyond ±{DEEPEST:g}; none where nothing "
            "is decided.",
        ),
    )


def _token(
    found: Words, head: Head, way: int, rule: str, at: int, both: str, turned: bool
) -> Token:
    """The first character of `both`: whether a word ends with it, and the numbers behind that."""
    weights, said = found.weights[way], bool(found.said[way][rule][head][at])
    ratio = float(weights.features(head.layer)[2, head.head, at])
    given = f"{weights.next[head][at]:.3f}", f"{weights.sep[head][at]:.3f}", signed(ratio, 2)
    answer = Text("词尾", "a word ends") if said else Text("不断", "no end")
    note = Text(
        f"给“{both[1]}” {given[0]}，给 [SEP] {given[1]}，比的对数 {given[2]} → {answer.zh}",
        f"“{both[1]}” {given[0]}, [SEP] {given[1]}, log ratio {given[2]} → {answer.en}",
    )
    return Token(text=both[0], value=ratio, ends_word=said, marked=turned, note=note)


if __name__ == "__main__":
    main()
