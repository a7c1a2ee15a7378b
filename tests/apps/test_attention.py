"""Attention maps of any head: parts, heads left out, fine-tuning, all heads in small."""

import io
import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from apps.screens.attention import grid_of, of_way, png
from qt_bert.figures import HeatMap
from qt_bert.heads import Head
from qt_bert.page.maps import (
    MOST_LINES,
    MOST_TOKENS,
    PARTS,
    SMALL,
    attention,
    last_start,
    layer_maps,
    overview,
)
from tests.apps.conftest import STATE as SOME
from tests.apps.conftest import Visit, counted, opened, shown

QUERY, TITLE = "北京高铁", "上海到北京"
STATE = replace(SOME, query=QUERY, title=TITLE, out=(Head(0, 1), Head(1, 3)))
PAIR = {"q": "北京到上海高铁", "t": "北京高铁票多少钱", "layer": "1", "head": "1", "lang": "en"}
TOKENS = ("[CLS]", *QUERY, "[SEP]", *TITLE, "[SEP]")
IN_QUERY, IN_TITLE = list(range(1, 5)), list(range(6, 11))


@pytest.fixture(scope="module")
def model(checkpoint_of):
    return opened(checkpoint_of("bert", layers=4, heads=4))


@pytest.fixture(scope="module")
def base(checkpoint_of):
    return opened(checkpoint_of("bert", layers=4, heads=4, seed=1))


def values(figure: HeatMap) -> np.ndarray:
    return np.array(figure.values, np.float64)


def test_before_after_and_the_change(model):
    before, after, change = attention(model, STATE).figures
    assert before.rows == before.columns == TOKENS
    np.testing.assert_allclose(values(before).sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(values(change), values(after) - values(before), atol=1e-7)
    assert abs(values(change)).max() > 1e-3 and change.scale == "diverging"
    assert before.high == after.high == max(values(before).max(), values(after).max())
    np.testing.assert_allclose(values(before), layer_maps(model, STATE)[0, 1])
    lines = attention(model, STATE).lines
    assert len(lines) == 2 and lines[0].high == lines[1].high == before.high
    assert {(a, b): weight for a, b, weight in lines[0].links} == {
        (a, b): weight for (a, b), weight in np.ndenumerate(values(before))
    }


def test_heads_that_are_not_below_leave_one_map(model):
    seen = attention(model, replace(STATE, out=(Head(2, 0),)))
    assert len(seen.figures) == len(seen.mean_weights) == 1
    assert "do not lie below layer 2" in seen.notes[0].en
    assert not attention(model, replace(STATE, out=())).notes
    assert last_start(model, STATE) == 0


@pytest.mark.parametrize(
    ("part", "rows", "columns"),
    [
        ("query_title", IN_QUERY, IN_TITLE),
        ("title_query", IN_TITLE, IN_QUERY),
        ("query", IN_QUERY, IN_QUERY),
        ("title", IN_TITLE, IN_TITLE),
        ("texts", IN_QUERY + IN_TITLE, IN_QUERY + IN_TITLE),
    ],
)
def test_a_part_is_a_part(model, part, rows, columns):
    state = replace(STATE, out=())
    (whole,), seen = attention(model, state).figures, attention(model, state, part)
    (figure,) = seen.figures
    own = values(whole)[np.ix_(rows, columns)]
    np.testing.assert_array_equal(values(figure), own)
    assert figure.rows == tuple(TOKENS[at] for at in rows)
    assert figure.columns == tuple(TOKENS[at] for at in columns)
    expected = 100 * own.sum(1).mean()
    assert seen.mean_weights[0][1] == pytest.approx(expected)
    grid = grid_of(overview(model, state), part, "before", STATE.chosen)
    assert grid.values[2][1] == pytest.approx(expected, abs=1e-3)
    assert grid.marked == ((2, 1),)


def test_fine_tuning_strengthens_and_weakens(model, base):
    seen = attention(model, STATE, "query_title", base=base)
    before, after, stronger, weaker = map(values, seen.figures)
    np.testing.assert_allclose(stronger - weaker, after - before, atol=1e-7)
    assert (np.minimum(stronger, weaker) == 0).all() and stronger.max() > 0
    plain = replace(STATE, out=())
    for way, found in ((base, before), (model, after)):
        np.testing.assert_allclose(found, values(attention(way, plain, "query_title").figures[0]))
    assert [way.en for way, _ in seen.mean_weights] == ["before fine-tuning", "after fine-tuning"]
    assert "play no part" in seen.notes[0].en and not attention(model, plain, base=base).notes


def test_other_tokens_cannot_be_compared(model, checkpoint_of):
    other = opened(checkpoint_of("xlm-roberta", layers=4, heads=4))
    seen = attention(model, STATE, base=other)
    assert not seen.figures and "no map can be compared" in seen.notes[-1].en


def test_a_long_pair_is_drawn_a_stretch_at_a_time(model):
    state = replace(STATE, title="上海到北京高铁票价" * 7, out=())
    first, later = attention(model, state), attention(model, state, start=10)
    assert last_start(model, state) == 16 and "stretch" in first.notes[0].en
    one, other = values(first.figures[0]), values(later.figures[0])
    assert one.shape == other.shape == (MOST_TOKENS, MOST_TOKENS)
    np.testing.assert_array_equal(one[10:, 10:], other[:-10, :-10])
    (lines,) = first.lines
    assert len(lines.links) == MOST_LINES and lines.note is not None and "2,304" in lines.note.en
    assert lines.links[0][2] == one.max()
    assert first.mean_weights == later.mean_weights
    last = attention(model, state, start=10**6).figures[0]
    assert last.columns[-1] == "[SEP]" and len(last.columns) == MOST_TOKENS
    small = overview(model, state).small
    assert small.shape[-2:] == (SMALL, SMALL)
    assert small[0, 2, 1].max() == pytest.approx(layer_maps(model, state)[0, 1].max(), abs=1e-3)


def test_a_part_without_tokens_is_said(model):
    seen = attention(model, replace(STATE, query="北" * 80), "title")
    assert not seen.figures and seen.mean_weights[0][1] is None
    assert "no such tokens" in seen.notes[0].en
    state = replace(STATE, query="北" * 80)
    assert grid_of(overview(model, state), "title", "before", Head(0, 0)).values[0][0] is None


def test_the_picture_of_all_heads(model):
    seen, chosen = overview(model, STATE), STATE.chosen
    pictures = [
        png(of_way(seen.small.astype(np.float32), way), chosen, way == "change")
        for way in ("before", "after", "change")
    ]
    assert len(set(pictures)) == 3
    image = Image.open(io.BytesIO(pictures[0]))
    assert image.format == "PNG" and image.mode == "RGBA"
    assert image.size[0] == image.size[1] > 4 * 40
    assert image.getpixel((3, 3))[3] == 0
    change, *ways = (grid_of(seen, "query", way, chosen) for way in ("change", "before", "after"))
    assert change.scale == "diverging"
    before, after = (one.values[3][2] for one in ways)
    assert change.values[3][2] == pytest.approx(after - before, abs=1e-3)


def test_another_head_asks_for_no_forward(model, monkeypatch):
    calls = counted(model, monkeypatch)
    state = replace(STATE, title="上海高铁")
    for head in range(4):
        for part in PARTS:
            attention(model, replace(state, head=head), part)
            overview(model, replace(state, head=head))
    assert len(calls) == 2


def visited(app: Visit, **link: str) -> Any:
    at = app("attention", **(PAIR | link))
    assert not at.exception and not at.error
    return at


def test_before_and_after(app):
    at = visited(app, out="L0H1")
    assert not at.metric  # every row of a whole map adds up to 1
    at.session_state["attention.part"] = "query_title"
    at.run()
    assert not at.exception and len(at.metric) == 2 and at.metric[0].value != at.metric[1].value
    text = shown(at)
    assert "L1H1, whole model" in text and "L1H1, without the chosen heads" in text
    at.session_state["attention.way"] = "change"
    assert not at.run().exception


def test_before_and_after_fine_tuning(app, checkpoint_of, tmp_path, monkeypatch):
    for name, seed in (("tuned", 0), ("untuned", 1)):
        shutil.copytree(checkpoint_of(positions=128, seed=seed), tmp_path / name)
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path))
    monkeypatch.setenv("QT_BERT_APP_BASE", str(tmp_path / "untuned"))
    at = visited(app, model="tuned", out="L0H1")
    at.session_state["attention.compare"] = "tuning"
    text = shown(at.run())
    assert not at.exception and "strengthened" in text and "play no part" in text


def test_a_stretch_of_a_long_pair_is_chosen(app):
    at = visited(app, t="北京高铁票多少钱" * 20, out="none")
    assert "stretch" in shown(at) and "too long" in shown(at)
    assert not at.main.slider[0].set_value(5).run().exception
