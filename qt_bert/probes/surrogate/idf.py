"""The weights of terms: counted in a corpus, or in the discovery texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Reject
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import PairFileError
from qt_bert.files import sha256_file
from qt_bert.probes.base import Context
from qt_bert.probes.surrogate.terms import Idf, count_terms

QUICK_TEXTS = 2000
"""Discovery pairs whose texts are counted in a quick run, where there is no corpus."""


@dataclass(frozen=True)
class Counted:
    """The weights, and the texts they come from: a file's name and hash, or the discovery texts."""

    idf: Idf
    name: str
    sha256: str | None = None


def counted(context: Context, wanted: Collection[str]) -> Counted:
    """The weights of the `wanted` terms, from `--corpus` or the distinct texts of discovery.

    Raises PairFileError for a corpus that cannot be read or holds no text.
    """
    path = context.corpus
    with context.progress(None, "texts") as shown:
        texts = _discovery(context) if path is None else _lines(path)
        idf = count_terms(texts, wanted, context.segmenter, shown=shown)
    if path is None:
        return Counted(idf, "discovery")
    if not idf.documents:
        raise PairFileError(f"{path}: no text in it to count words in")
    return Counted(idf, path.name, sha256_file(path))


def _discovery(context: Context) -> Iterator[str]:
    """Each query and each title once."""
    limit = context.choose(QUICK_TEXTS, len(context.discovery))
    pairs = spread_over_queries(context.discovery, limit, context.seed)
    yield from dict.fromkeys(text for pair in pairs for text in (pair.query, pair.title))


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file that are valid text."""
    for line in TextSource(path).lines():
        if not isinstance(line, Reject):
            yield line[1]
