"""The page of words: readings, decisions, heads left out, texts without any decision."""

import shutil

import numpy as np
import pytest

from apps.screens.words import (
    Words,
    calibration_of,
    notes,
    pair_texts,
    text_figure,
    words,
)
from qt_bert.data.reader import read_pairs
from qt_bert.data.segmenters import Segmenter, word_ends
from qt_bert.heads import Head
from tests.apps.conftest import opened, plain
from tests.probes.planted_boundary import (
    ENDS,
    HAN,
    PLANTED,
    plant_word_ends,
    spans_of,
    words_of,
    write_pairs,
)

QUERY, TITLE = HAN[:4], HAN[10:20]
KNOWS = Head.parse(PLANTED)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Twenty made pairs."""
    return read_pairs(
        write_pairs(tmp_path_factory.mktemp("rows") / "dev.tsv", queries=20, titles=1)
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory, checkpoint_of, rows):
    """A model in which L1H2 knows where words end by its segmenter, calibrated on the made rows."""
    folder = plant_word_ends(tmp_path_factory.mktemp("words") / "planted", ENDS)
    model = opened(folder)
    model.segmenter = Segmenter("jieba", spans_of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apps.screens.words.shipped_rows", lambda split: rows)
        calibration_of(model)
    return model


@pytest.fixture
def found(planted):
    return words(planted, pair_texts(QUERY, TITLE), [KNOWS, Head(0, 0), Head(1, 0)])


def test_the_head_that_knows_is_the_best_and_cuts_as_the_segmenter(planted, found):
    assert calibration_of(planted).best[0] == KNOWS
    assert len(found.decisions) == len(QUERY) + len(TITLE) - 2
    labels = found.decisions.labels(word_ends(planted.segmenter))
    for rule in ("calibrated", "article"):
        assert (found.predictions[0][rule][KNOWS] == labels).all()


def test_rows_of_text_show_the_cuts_and_the_numbers_behind_them(found):
    query, title = (text_figure(found, number, "article") for number in (0, 1))
    assert query.title.en.endswith("query is cut")
    lines = {getattr(line.name, "en", line.name): line.tokens for line in title.lines}
    assert list(lines)[:3] == ["jieba precise", "jieba search", "jieba full"]
    ends = np.cumsum([len(word) for word in words_of(TITLE)]) - 1
    for name in ("jieba precise", PLANTED):
        assert [at for at, token in enumerate(lines[name]) if token.ends_word] == ends.tolist()
    token = lines[PLANTED][0]
    assert token.value is not None and (token.value > 0) == token.ends_word
    assert token.note is not None and TITLE[1] in token.note.zh and "[SEP]" in token.note.en
    assert lines[PLANTED][-1].value is None


def said(found: Words, without: bool = False) -> str:
    return " ".join(one.en for one in notes(found, without))


def test_heads_left_out_move_only_heads_above_them(planted):
    below = words(planted, pair_texts(QUERY, TITLE), [KNOWS], out=[Head(0, 0)])
    before, after = below.weights
    assert (after.next[0] == before.next[0]).all() and (after.next[1] != before.next[1]).any()


def test_a_decision_that_turned_is_outlined(checkpoint_of):
    model = opened(checkpoint_of(layers=3))
    out = [Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 1)]
    found = words(model, pair_texts(QUERY, TITLE), [Head(2, 0), Head(2, 1)], out=out)
    for rule in ("calibrated", "article"):
        before, after = (one[rule][2] for one in found.predictions)
        figures = [text_figure(found, number, rule) for number in (0, 1)]
        tokens = [token for f in figures for line in f.lines for token in line.tokens]
        assert sum(token.marked for token in tokens) == (before != after).sum()


@pytest.mark.parametrize("texts", [("a", "b"), ("iphone 15", "京 a 东"), ("<b>", "=1+1")])
def test_texts_without_decisions(planted, texts):
    found = words(planted, pair_texts(*texts), [KNOWS])
    assert len(found.decisions) == 0
    assert "nothing to decide" in said(found)
    assert text_figure(found, 1, "calibrated").lines


def test_what_is_cut_off_is_not_shown(planted):
    cut = words(planted, pair_texts(QUERY, HAN), [KNOWS])
    title = cut.shown[1]
    assert HAN.startswith(title) and len(title) == planted.longest - 3 - len(QUERY)
    assert "too long" in said(cut)


def test_a_text_of_the_calibration_is_said(planted, rows):
    pair = rows[0]
    found = words(planted, pair_texts(pair.query, pair.title), [KNOWS])
    assert "no test of the calibrated" in said(found)


def test_readings_and_weights_are_kept(planted, monkeypatch):
    asked = pair_texts(QUERY, TITLE)
    words(planted, asked, [KNOWS])
    monkeypatch.setattr("apps.screens.words.attention_of", None)
    assert words(planted, asked, [Head(0, 1)]).heads == (Head(0, 1),)


LINK = {"q": "京东小哥", "t": "京东小哥最近在干嘛", "lang": "en"}


def test_the_page_reads_the_pair(app):
    at = app("words", **LINK)
    assert not at.exception
    text = plain(at)
    assert "Words: where heads end them" in text
    assert "11 decisions" in text and "240 of the dev pairs" in text


def test_other_heads_and_the_articles_rule(app):
    at = app("words", **LINK, out="L0H1")
    assert "a second line shows them" in plain(at)
    assert len(at.multiselect[0].value) == 4  # of a model of four heads
    at.multiselect[0].set_value([Head(1, 1)]).run()
    at.main.segmented_control(key="words.rule").set_value("article").run()
    assert not at.exception and "11 decisions" in plain(at)


def test_a_causal_model_has_nothing_to_read(app, checkpoint_of, tmp_path, monkeypatch):
    shutil.copytree(checkpoint_of("qwen3", positions=128), tmp_path / "causal")
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path))
    at = app("words", **LINK)
    assert not at.exception and not at.multiselect
    assert "a character does not see the next one" in plain(at)
