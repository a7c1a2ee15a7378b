"""The page of words: readings, decisions, agreement, heads left out, texts without any decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.reader import read_pairs
from qt_bert.data.segmenters import SpanSegmenter
from qt_bert.errors import ArgumentError
from qt_bert.inspection.cache import Kept, bytes_of
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.turns import Turns
from qt_bert.inspection.views import words
from qt_bert.inspection.views.words import (
    MOST_HEADS,
    Words,
    agreement,
    calibration_of,
    side_by_side,
    text_figures,
    texts_asked,
    weights_under,
)
from qt_bert.inspection.views.words import words as words_words
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.boundary import PRECISE, asked_of, decisions_of, weights_of
from tests.probes.planted_boundary import (
    ENDS,
    HAN,
    PLANTED,
    plant_word_ends,
    spans_of,
    words_of,
    write_pairs,
)

Build = Callable[..., Path]
QUERY, TITLE = HAN[:4], HAN[10:20]
KNOWS = Head.parse(PLANTED)


def inspect(folder: Path) -> Inspected:
    return Inspected(folder.name, open_checkpoint(folder), Turns())


@pytest.fixture(autouse=True)
def made_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Twenty made pairs in place of the dev pairs, and nothing kept from other tests."""
    pairs = read_pairs(write_pairs(tmp_path / "dev.tsv", queries=20, titles=1))
    monkeypatch.setattr(words, "shipped_rows", lambda name: pairs)
    monkeypatch.setattr(words, "_kept_readings", Kept(2))
    monkeypatch.setattr(words, "_kept_words", Kept())
    yield


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory, checkpoint_of: Build) -> Inspected:
    """A model in which L1H2 knows where words end, by a made table that its segmenter goes by."""
    folder = plant_word_ends(tmp_path_factory.mktemp("words") / "planted", checkpoint_of(), ENDS)
    inspected = inspect(folder)
    inspected.segmenter = SpanSegmenter("jieba", spans_of)
    return inspected


@pytest.fixture
def found(planted: Inspected) -> Words:
    return words_words(planted, texts_asked(QUERY, TITLE), [KNOWS, Head(0, 0), Head(1, 0)])


def test_the_head_that_knows_is_the_best_and_cuts_as_the_segmenter(
    planted: Inspected, found: Words
) -> None:
    assert calibration_of(planted).best[0] == KNOWS
    assert len(found.decisions) == len(QUERY) + len(TITLE) - 2
    for rule in ("calibrated", "article"):
        assert (found.before.said[rule][KNOWS] == found.labels[PRECISE]).all()  # type: ignore[index]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_weights_are_those_of_the_probe(family: str, checkpoint_of: Build) -> None:
    inspected = inspect(checkpoint_of(family))
    pairs = words.shipped_rows("dev")[:6]
    decisions = decisions_of(inspected.scorer.tokenizer, asked_of(pairs))
    (ours,), probes = weights_under(inspected, decisions), weights_of(inspected.scorer, decisions)
    np.testing.assert_allclose(ours.next, probes.next, atol=1e-6)
    np.testing.assert_allclose(ours.sep, probes.sep, atol=1e-6)
    assert ours.next.max() > 0.1


def test_rows_of_text_show_the_cuts_and_the_numbers_behind_them(found: Words) -> None:
    query, title = text_figures(found, "article")
    assert query.title.en.endswith("query is cut")
    lines = {getattr(line.name, "en", line.name): line.tokens for line in title.lines}
    assert list(lines)[:3] == [
        f"jieba {n}" for n in ("precise", "search (finest)", "full (coarsest)")
    ]
    ends = np.cumsum([len(word) for word in words_of(TITLE)]) - 1
    for name in ("jieba precise", PLANTED):
        assert [at for at, token in enumerate(lines[name]) if token.ends_word] == ends.tolist()
    token = lines[PLANTED][0]
    assert token.value is not None and (token.value > 0) == token.ends_word
    assert token.note is not None and TITLE[1] in token.note.zh and "[SEP]" in token.note.en
    assert lines[PLANTED][-1].value is None


def test_agreement_counts_decisions_and_words(found: Words) -> None:
    accuracy, word_f1 = agreement(found, "accuracy"), agreement(found, "word_f1")
    n, cut = len(found.decisions), len(words_of(QUERY)) + len(words_of(TITLE))
    assert accuracy.annotations is not None and word_f1.annotations is not None
    assert (accuracy.rows[0], accuracy.values[0][0]) == (PLANTED, 1.0)
    assert accuracy.annotations[0][0] == f"{n}/{n}"
    assert word_f1.annotations[0][0] == f"{2 * cut}/{2 * cut}"
    majority = max(found.labels[PRECISE].sum(), (~found.labels[PRECISE]).sum())
    assert accuracy.values[-1][0] in (majority / n, 1 - majority / n)
    names = [getattr(row, "en", row) for row in accuracy.rows]
    assert names == [PLANTED, "L0H0", "L1H0", "majority"]


def test_heads_left_out_move_only_heads_above_them(planted: Inspected) -> None:
    asked, every = texts_asked(QUERY, TITLE), [KNOWS, Head(0, 1)]
    below = words_words(planted, asked, every, out=[Head(0, 0)])
    assert below.moved == (KNOWS,) and below.after is not None
    assert (below.after.weights.next[0] == below.before.weights.next[0]).all()
    assert words.TURNED in list(words.notes(below))
    above = words_words(planted, asked, every, out=[Head(1, 3)], mode="uniform")
    assert above.moved == () and words.STILL in list(words.notes(above))


def test_a_decision_that_turned_is_outlined(checkpoint_of: Build) -> None:
    inspected = inspect(checkpoint_of(layers=3))
    out = [Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 1)]
    found = words_words(inspected, texts_asked(QUERY, TITLE), [Head(2, 0), Head(2, 1)], out=out)
    assert found.after is not None
    for rule in ("calibrated", "article"):
        turned = (found.before.said[rule] != found.after.said[rule])[2].sum()  # type: ignore[index]
        figures = text_figures(found, rule)  # type: ignore[arg-type]
        tokens = [token for f in figures for line in f.lines for token in line.tokens]
        assert sum(token.marked for token in tokens) == turned
        lines = [
            line for f in figures for line in f.lines if "left out" in getattr(line.name, "en", "")
        ]
        assert all(any(token.marked for token in line.tokens) for line in lines)
    assert (found.before.weights.next[2] != found.after.weights.next[2]).any()


@pytest.mark.parametrize("texts", [("a", "b"), ("iphone 15", "京 a 东"), ("<b>", "=1+1")])
def test_texts_without_decisions(planted: Inspected, texts: tuple[str, str]) -> None:
    found = words_words(planted, texts_asked(*texts), [KNOWS])
    assert len(found.decisions) == 0
    assert list(words.notes(found)) == [words.NOTHING]
    assert len(text_figures(found, "calibrated")) == 2
    assert set(agreement(found, "accuracy").values[0]) == {None}


def test_a_typed_text_stands_in_the_titles_place(planted: Inspected) -> None:
    found = words_words(planted, texts_asked(QUERY, TITLE, HAN[30:36]))
    assert found.decisions.pairs == [(QUERY, HAN[30:36])]
    (figure,) = text_figures(found, "calibrated")
    assert figure.title.en == "Where the text is cut"
    assert len(found.heads) == min(MOST_HEADS, 8) and found.heads[0] == KNOWS


def test_what_is_cut_off_is_not_shown(planted: Inspected) -> None:
    found = words_words(planted, texts_asked(QUERY, HAN), [KNOWS])
    assert HAN.startswith(found.shown[1]) and len(found.shown[1]) == planted.longest - 3 - len(
        QUERY
    )
    assert words.CUT in list(words.notes(found))


def test_a_text_of_the_calibration_is_said(planted: Inspected) -> None:
    pair = words.shipped_rows("dev")[0]
    found = words_words(planted, texts_asked(pair.query, pair.title), [KNOWS])
    assert words.KNOWN in list(words.notes(found))


def test_the_same_heads_in_two_models(
    planted: Inspected, checkpoint_of: Build, tmp_path: Path
) -> None:
    folder = plant_word_ends(tmp_path / "other", checkpoint_of(), set())
    other = inspect(folder)
    other.segmenter = planted.segmenter
    asked = texts_asked(QUERY, TITLE)
    figure = side_by_side([words_words(one, asked, [KNOWS]) for one in (planted, other)])
    assert figure.categories == (PLANTED,)
    knows, not_yet = (series.values[0] for series in figure.series)
    assert knows == 1.0 and not_yet is not None and not_yet < 1.0


def test_readings_and_weights_are_kept(planted: Inspected, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = texts_asked(QUERY, TITLE)
    words_words(planted, asked, [KNOWS])
    monkeypatch.setattr(planted, "run", None)
    assert words_words(planted, asked, [Head(0, 1)]).heads == (Head(0, 1),)


def test_what_is_kept_of_a_calibration_does_not_grow_with_its_queries(planted: Inspected) -> None:
    found = calibration_of(planted)
    assert found.decisions > 200 and found.calibrated.per_query.size == 0
    assert bytes_of(found) < 200_000  # of 8 heads; the texts are most of it


def test_a_head_that_is_not_there(planted: Inspected) -> None:
    with pytest.raises(ArgumentError, match="L9H0"):
        words_words(planted, texts_asked(QUERY, TITLE), [Head(9, 0)])
