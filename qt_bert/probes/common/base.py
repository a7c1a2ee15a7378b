"""What figures and sentences rest on, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qt_bert.pairs import Pair
from qt_bert.results import Figure, Text
from qt_bert.results.text import counted


def sample(pairs: int, queries: int) -> Text:
    """`48 pairs of 40 queries`."""
    return Text(
        f"{pairs:,} 对、{queries:,} 个查询",
        f"{counted(pairs, 'pair')} of {counted(queries, 'query', 'queries')}",
    )


def sample_of(pairs: Sequence[Pair]) -> Text:
    """The same of the pairs themselves."""
    return sample(len(pairs), len({pair.query for pair in pairs}))


def resting_on(base: Text, figures: Iterable[Figure]) -> Iterator[Figure]:
    """`figures`, their base said at the end of their notes."""
    for figure in figures:
        yield ending_with(Text(f"依据：{base.zh}。", f"Base: {base.en}."), figure)


def ending_with(sentence: Text, figure: Figure) -> Figure:
    """`figure` with a sentence at the end of its note."""
    if figure.note is None:
        return replace(figure, note=sentence)
    zh, en = figure.note.zh.rstrip("。"), figure.note.en.rstrip(".")
    return replace(figure, note=Text(f"{zh}。{sentence.zh}", f"{en}. {sentence.en}"))
