"""Where words end, by a segmenter at three granularities, or by people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from qt_bert.errors import PairFileError
from qt_bert.pairs import segmenter
from qt_bert.pairs.formats.source import TextSource
from qt_bert.pairs.pair import Reject
from qt_bert.pairs.segmenters import Segmenter, Span
from qt_bert.probes.common.characters import QUERY, is_han
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.word_ends.decisions import Asked, Ends

PRECISE, SEARCH, FULL, GOLD = "precise", "search", "full", "gold"
PARTITIONS = ("jieba", "rjieba")


def partition_of(context: ProbeContext) -> str:
    """The segmenter asked for, or jieba where that one's words overlap."""
    return context.segmenter_name if context.segmenter_name in PARTITIONS else "jieba"


def references(context: ProbeContext) -> dict[str, Ends]:
    """The granularities by name: a partition, and jieba's finest edges and its coarsest."""
    name = partition_of(context)
    asked = name == context.segmenter_name
    precise = context.segmenter if asked else segmenter(name, context.userdict)
    return granularities(precise, context.userdict)


def granularities(precise: Segmenter, userdict: Path | None = None) -> dict[str, Ends]:
    """Where words end by the partition `precise`, and by jieba's finest and coarsest reading."""
    search, full = (segmenter(f"jieba-{mode}", userdict) for mode in (SEARCH, FULL))
    return {
        PRECISE: lambda text: ends_of(precise.spans(text)),
        SEARCH: lambda text: edges_of(search.spans(text)),
        FULL: lambda text: uncrossed(full, text),
    }


def ends_of(spans: Iterable[Span]) -> set[int]:
    """Where the words of a partition end."""
    return {end for _, end in spans}


def edges_of(spans: Iterable[Span]) -> set[int]:
    """Where any word begins or ends: the finest reading of words that overlap."""
    return {edge for span in spans for edge in span}


def uncrossed(words: Segmenter, text: str) -> set[int]:
    """Where no word goes across: the coarsest reading of words that overlap."""
    crossed = {place for start, end in words.spans(text) for place in range(start + 1, end)}
    return set(range(1, len(text) + 1)) - crossed


def gold_texts(path: Path, most: int) -> tuple[list[Asked], Ends]:
    """The segments of a file of segmented lines, and where their words end.

    A line is one segment; one of more than `most` characters is split behind punctuation, or
    behind a word where a clause is longer. Each segment is read as a query with the next segment of
    the file as its title. Raises PairFileError for a line that is no text, and for fewer than two
    segments.
    """
    segments: dict[str, set[int]] = {}
    for item in TextSource(path).lines():
        if isinstance(item, Reject):
            raise PairFileError(f"{path}: line {item.line}: {item.reason}")
        for words in split(item[1].split(), most):
            segments.setdefault("".join(words), set(accumulate(map(len, words))))
    texts = list(segments)
    if len(texts) < 2:
        raise PairFileError(f"{path}: a segmented file needs two different lines at least")
    following = [*texts[1:], texts[0]]
    asked = [
        Asked(text, (text, after), QUERY, text)
        for text, after in zip(texts, following, strict=True)
    ]
    return asked, segments.__getitem__


def split(words: Sequence[str], most: int) -> list[list[str]]:
    """A line's words in segments of at most `most` characters (or one word, if that is longer)."""
    if sum(map(len, words)) <= most:
        return [list(words)] if words else []
    segments: list[list[str]] = [[]]
    for clause in _clauses(words):
        fits = sum(map(len, clause)) <= most
        for part in [clause] if fits else [[word] for word in clause]:
            if segments[-1] and sum(map(len, [*segments[-1], *part])) > most:
                segments.append([])
            segments[-1].extend(part)
    return segments


def _clauses(words: Sequence[str]) -> list[list[str]]:
    """Words up to and with each punctuation mark."""
    clauses: list[list[str]] = [[]]
    for word in words:
        clauses[-1].append(word)
        if not any(is_han(one) or one.isalnum() for one in word):
            clauses.append([])
    return [clause for clause in clauses if clause]
