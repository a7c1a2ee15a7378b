"""Terms, their weights, BM25 and overlap, by hand."""

from __future__ import annotations

import gzip
import lzma
import math
from pathlib import Path

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import SpanSegmenter
from qt_bert.errors import PairFileError
from qt_bert.probes.base import Context
from qt_bert.probes.split import PairFiles, Split
from qt_bert.probes.surrogate.idf import counted
from qt_bert.probes.surrogate.lexical import bm25, overlap
from qt_bert.probes.surrogate.terms import Idf, Term, count_terms, terms_of


def _spans(text: str) -> list[tuple[int, int]]:
    found, start = [], 0
    for word in text.split(" "):
        found.append((start, start + len(word)))
        start += len(word) + 1
    return found


BY_SPACES = SpanSegmenter("spaces", _spans)


def cut(text: str) -> list[Term]:
    return terms_of(text, BY_SPACES)


def test_terms_have_no_punctuation_and_no_case() -> None:
    assert cut("Ab ， 的 ab") == [Term("ab", (0, 2)), Term("的", (5, 6)), Term("ab", (7, 9))]


def test_texts_are_counted_once_each() -> None:
    seen: list[int] = []

    class Shown:
        def advance(self, amount: int) -> None:
            seen.append(amount)

    texts = ["a a b", "a c", "d", "B"]
    found = count_terms(texts, {"a", "b", "z"}, BY_SPACES, shown=Shown())
    assert found == Idf(4, {"a": 2, "b": 2})
    assert sum(seen) == 4
    assert found.of("a") == pytest.approx(math.log(1 + 2.5 / 2.5))
    assert found.of("z") == pytest.approx(math.log(1 + 4.5 / 0.5))
    assert Idf(3, {"a": 3}).of("a") > 0


def test_bm25_by_hand() -> None:
    idf = Idf(10, {"a": 1, "b": 4})
    a, b = math.log(1 + 9.5 / 1.5), math.log(1 + 6.5 / 4.5)
    query, title = cut("a b z a"), cut("a a b c")
    # Twice the mean length of 2: k1 (1 − b + b · 2) = 1.2 · 1.75 = 2.1.
    want = 2 * a * 2 * 2.2 / (2 + 2.1) + b * 1 * 2.2 / (1 + 2.1)
    assert bm25(query, title, idf, 2.0) == pytest.approx(want)
    assert bm25(query, cut("x y"), idf, 2.0) == 0
    assert bm25(query, [], idf, 0.0) == 0


def test_overlap_by_hand() -> None:
    assert overlap(cut("a b z a"), cut("a a b c")) == pytest.approx(2 / 3)
    assert overlap(cut("， ！"), cut("a")) == 0


def context(tmp_path: Path, corpus: Path | None) -> Context:
    pairs = [Pair("a b", "a c", (1,), "1", 1, "1", {}), Pair("a b", "b", (2,), "2", 2, "2", {})]
    made = Context(
        label="surrogate",
        files=PairFiles(pairs=tmp_path / "none"),
        work=tmp_path,
        open_model=lambda: pytest.fail("no model is needed to count words"),
        corpus=corpus,
    )
    made.__dict__["_split"] = Split(pairs, pairs, 0)
    made.__dict__["segmenter"] = BY_SPACES
    return made


def test_without_a_corpus_the_discovery_texts_are_counted(tmp_path: Path) -> None:
    found = counted(context(tmp_path, None), {"a", "b"})
    assert (found.name, found.sha256) == ("discovery", None)
    assert found.idf == Idf(3, {"a": 2, "b": 2})  # "a b" is one text


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_corpus_may_be_packed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"corpus.txt{suffix}"
    opened = {"": open, ".gz": gzip.open, ".xz": lzma.open}[suffix]
    with opened(path, "wb") as file:
        file.write(b"a b\n\nb c\nb\n" + b"a \xff\xfe\n")
    found = counted(context(tmp_path, path), {"a", "b"})
    assert found.idf == Idf(3, {"a": 1, "b": 3})  # no empty line, and none that is no text
    assert found.name == path.name and found.sha256 is not None


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    with pytest.raises(PairFileError, match="empty"):
        counted(context(tmp_path, empty), {"a"})
    blank = tmp_path / "blank.txt"
    blank.write_bytes(b"\n\r\n\xff\xfe\xff\n")
    with pytest.raises(PairFileError, match="blank.txt: no text in it"):
        counted(context(tmp_path, blank), {"a"})
    with pytest.raises(PairFileError, match="cannot be read"):
        counted(context(tmp_path, tmp_path / "none.txt"), {"a"})
