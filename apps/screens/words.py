"""Words: where heads end the words of a text, beside jieba."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from qt_bert.data.segmenters import GRANULARITIES, granularities, word_ends
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.figures import Token, TokenLine, Tokens
from qt_bert.heads import Head, checked_heads
from qt_bert.page.figures import draw
from qt_bert.page.maps import plain_and_without
from qt_bert.page.model import SharedModel, SharedScorer
from qt_bert.page.pairs import shipped_rows
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, choose, info, localised
from qt_bert.probes.boundary import CalibratedHeads, calibrate, lacking
from qt_bert.probes.boundary_decisions import (
    LEAST_DECISIONS,
    CharacterAttention,
    Decisions,
    PairText,
    attention_of,
    decisions_of,
    distinct_texts,
)
from qt_bert.probes.naming import ranked
from qt_bert.probes.streams import few_a_query
from qt_bert.probes.texts import texts_of
from qt_bert.stats.arrays import BoolArray
from qt_bert.text import Label, Text, signed

# A head's calibrated rule (feature, threshold, side), or the article's (2.2).
RULES = {"calibrated": Text("校准", "calibrated"), "article": Text("规则", "rule")}
RATIO = Text(
    "ln(给 [SEP] 的权重 / 给下一个字的权重)", "ln(weight on [SEP] / weight on the next character)"
)
SET, MOST_HEADS, BATCH_TOKENS = "boundary", 12, 512
# Beyond this log ratio colours do not change, so that two models can be compared.
DEEPEST = 4.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Every head's rule, calibrated on the dev pairs that ship as the probe `boundary` does.

    `best` are all heads by their balanced accuracy there; `texts` are those of the pairs, which cannot test
    the rules.
    """

    calibrated: CalibratedHeads
    best: tuple[Head, ...]
    pairs: int
    decisions: int
    texts: frozenset[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Words:
    """One model on a few texts.

    `pair` are the texts, `shown` what the model reads of each; `decisions` holds those that have
    any. `ends` are jieba's word ends in each text by granularity. `weights` and `predictions` (rule → whether
    a word ends [layers, heads, D]) are of the whole model and, where heads are left out, without them.
    """

    pair: tuple[PairText, ...]
    shown: tuple[str, ...]
    decisions: Decisions
    ends: tuple[dict[str, set[int]], ...]
    heads: tuple[Head, ...]
    calibration: Calibration
    weights: list[CharacterAttention]
    predictions: list[dict[str, BoolArray]]


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
        "校准：每个头的读法在自带的开发集上定。规则（文章）：给 [SEP] 的权重大于给下一个字的，就是词尾。",
        "Calibrated: how each head is read is set on the dev pairs that ship. Rule (the article's): "
        "a word ends where [SEP] weighs more than the next character.",
    )
    working = Text("正在读取注意力…", "Reading attention (first calibrating heads)…")
    with st.spinner(localised(working)):
        calibration_of(here.model)
    heads = _heads(here)
    result = words(here.model, pair_texts(state.query, state.title), heads, state.out, state.mode)
    for note in notes(result, bool(state.out)):
        caption(note)
    if len(result.decisions):
        for number in range(len(result.pair)):
            draw(text_figure(result, number, rule))


def _heads(here: Visit) -> list[Head]:
    """The heads to read by: at first the study's set, else the best on calibration."""
    known = here.results.sets.get(SET, ()) if here.results else ()
    first = known or calibration_of(here.model).best
    chosen: list[Head] = st.multiselect(
        localised(f"注意力头（至多 {MOST_HEADS} 个）", f"Heads ({MOST_HEADS} at most)"),
        here.model.shape.all_heads,
        default=first[:MOST_HEADS],
        max_selections=MOST_HEADS,
        key=f"words.heads.{here.state.model}.{bool(known)}",
        help=localised(
            "起先是研究选出的头，否则是校准时最准的头。",
            "At first those the study named, else the most accurate in calibration.",
        ),
    )
    return chosen


def pair_texts(query: str, title: str) -> list[PairText]:
    """The query and the title of a pair."""
    pair = (query, title)
    return [PairText(query, pair, QUERY, query), PairText(title, pair, TITLE, query)]


def calibration_of(model: SharedModel) -> Calibration:
    """The rules of a model's heads, computed once: the probe's sample and search, without tests."""

    def compute() -> Calibration:
        pairs = few_a_query(shipped_rows("dev"))
        texts = distinct_texts(pairs)
        decisions = decisions_of(model.scorer.tokenizer, texts, least=LEAST_DECISIONS)
        labels = decisions.labels(word_ends(model.segmenter))
        weights = attention_of(_shared(model), decisions)
        calibrated = calibrate(weights, decisions, labels, shifts=0, seed=0)
        return Calibration(
            # Results of single queries are for tests, and grow with the model.
            replace(calibrated, per_query=calibrated.per_query[:0]),
            tuple(ranked(calibrated.named.score)),
            len(pairs),
            len(decisions),
            frozenset(text.text for text in texts),
        )

    with model.computing:  # whoever asks for it meanwhile waits
        return model.cache.get("calibration", compute)


def _shared(model: SharedModel) -> SharedScorer:
    """The model's scorer, whose batches are short enough for other visitors."""
    return SharedScorer(model.scorer, model.lock, BATCH_TOKENS)


def words(
    model: SharedModel,
    texts: Sequence[PairText],
    heads: Sequence[Head] = (),
    out: Sequence[Head] = (),
    mode: str = "zero",
) -> Words:
    """Read `texts`, the sides of one pair, by `heads` (by default the best on calibration).

    Where heads are left `out`, also without them. Raises ArgumentError for heads
    that the model lacks.
    """
    calibration = calibration_of(model)
    chosen = (tuple(dict.fromkeys(heads)) or calibration.best)[:MOST_HEADS]
    decisions = decisions_of(model.scorer.tokenizer, texts)
    references = granularities(model.segmenter)
    shown = tuple(_shown(model, text) for text in texts)
    key = ("words", decisions.texts, tuple(out), mode if out else "")

    def compute() -> list[CharacterAttention]:
        scorer = _shared(model)
        variants = plain_and_without(model, out, mode)
        return [attention_of(scorer, decisions, variant=variant) for variant in variants]

    weights = model.cache.get(key, compute)
    return Words(
        pair=tuple(texts),
        shown=shown,
        decisions=decisions,
        ends=tuple({name: ends(text) for name, ends in references.items()} for text in shown),
        heads=tuple(checked_heads(chosen, model.shape)),
        calibration=calibration,
        weights=weights,
        predictions=[
            {"calibrated": calibration.calibrated.predict(way), "article": way.rule()}
            for way in weights
        ],
    )


def _shown(model: SharedModel, text: PairText) -> str:
    """As much of a text as the model reads."""
    encoded = model.encode(*text.pair)
    cut = encoded.query_truncated if text.side == QUERY else encoded.title_truncated
    if not cut:
        return text.text
    spans = zip(encoded.side, encoded.spans, strict=True)
    return text.text[: max((end for side, (_, end) in spans if side == text.side), default=0)]


def notes(result: Words, without: bool) -> Iterator[Text]:
    """What the rules rest on, and their limits."""
    n, basis = len(result.decisions), result.calibration
    if not n:
        yield Text(
            "这里没有词元分得开的相邻汉字，没有可判断的地方。",
            "No two neighbours here are Chinese characters that the model's tokens part: nothing to decide.",
        )
        return
    yield Text(
        f"{n} 个判断（相邻的汉字）；校准用了自带开发集的 {basis.pairs} 对，{basis.decisions:,} 个判断。",
        f"{n} decisions (neighbouring Chinese characters). Calibration took {basis.pairs} of the dev pairs "
        f"that ship, {basis.decisions:,} decisions.",
    )
    if any(
        len(text) < len(whole.text) for text, whole in zip(result.shown, result.pair, strict=True)
    ):
        yield Text("文本太长，只显示读到的部分。", "The text is too long: what is read is shown.")
    if any(text.text in basis.texts for text in result.pair):
        yield Text(
            "校准用过这段文本，所以它不能检验校准出的读法。",
            "This text is among those of the calibration, so it is no test of the calibrated readings.",
        )
    if without:
        yield Text(
            "去掉左栏的头之后，断法变了的头另有一行，变了的地方加框。",
            "Where leaving out heads changes a head's cuts, a second line shows them, the changes outlined.",
        )


def text_figure(result: Words, number: int, rule: str) -> Tokens:
    """The text `number`: jieba's three granularities, then every head, read by `rule`."""
    text, side = result.shown[number], result.pair[number].side
    name = Text("查询", "query") if side == QUERY else Text("标题", "title")
    kept = [n for n, kept in enumerate(result.decisions.texts) if kept == result.pair[number]]
    decisions = np.flatnonzero(np.isin(result.decisions.text, kept)).tolist()
    places = {int(result.decisions.place[row]): row for row in decisions}

    def line(name: Label, head: Head, way: int, turned: BoolArray) -> TokenLine:
        tokens = (
            Token(text=character, ends_word=at == len(text) - 1)
            if (decision := places.get(at)) is None
            else _token(
                result, head, way, rule, decision, text[at : at + 2], bool(turned[decision])
            )
            for at, character in enumerate(text)
        )
        return TokenLine(name=name, tokens=tuple(tokens))

    lines = [
        TokenLine(
            name=texts_of("boundary").text(f"words.{granularity}"),
            tokens=tuple(
                Token(text=character, ends_word=place + 1 in result.ends[number][granularity])
                for place, character in enumerate(text)
            ),
        )
        for granularity in GRANULARITIES
    ]
    for head in result.heads:
        turned = result.predictions[0][rule][head] != result.predictions[-1][rule][head]
        lines.append(line(str(head), head, 0, np.zeros_like(turned)))
        if turned[decisions].any():
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
            f"Strokes: word ends. Colours: {RATIO.en}, the same beyond ±{DEEPEST:g}; none where nothing "
            "is decided.",
        ),
    )


def _token(
    result: Words, head: Head, way: int, rule: str, at: int, both: str, turned: bool
) -> Token:
    """The first character of `both`: whether a word ends with it, and the numbers behind that."""
    weights, ends_word = result.weights[way], bool(result.predictions[way][rule][head][at])
    ratio = float(weights.features(head.layer)[2, head.head, at])
    numbers = f"{weights.next[head][at]:.3f}", f"{weights.sep[head][at]:.3f}", signed(ratio, 2)
    answer = Text("词尾", "a word ends") if ends_word else Text("不断", "no end")
    note = Text(
        f"给“{both[1]}” {numbers[0]}，给 [SEP] {numbers[1]}，比的对数 {numbers[2]} → {answer.zh}",
        f"“{both[1]}” {numbers[0]}, [SEP] {numbers[1]}, log ratio {numbers[2]} → {answer.en}",
    )
    return Token(text=both[0], value=ratio, ends_word=ends_word, marked=turned, note=note)


if __name__ == "__main__":
    main()
