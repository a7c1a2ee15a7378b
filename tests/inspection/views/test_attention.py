"""Attention maps of any head: parts, heads left out, fine-tuning, all heads in small."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from qt_bert.figures import HeatMap
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.state import State
from qt_bert.inspection.views import attention as module
from qt_bert.inspection.views.all_heads import all_heads
from qt_bert.inspection.views.attention import (
    MOST_TOKENS,
    PARTS,
    attention,
    last_start,
    layer_maps,
    overview,
    tuning,
)
from qt_bert.models.heads import Head

QUERY, TITLE = "北京高铁", "上海到北京"
STATE = State(
    model="m",
    query=QUERY,
    title=TITLE,
    layer=2,
    head=1,
    out=(Head(0, 1), Head(1, 3)),
    mode="zero",
    seed=0,
    language="zh",
)
TOKENS = ("[CLS]", *QUERY, "[SEP]", *TITLE, "[SEP]")


def opened(folder: Path) -> Inspected:
    shelf = Shelf(folder)
    return shelf.open(shelf.names[0])


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Callable[..., Path]) -> Inspected:
    return opened(checkpoint_of("bert", layers=4, heads=4))


@pytest.fixture(scope="module")
def base(checkpoint_of: Callable[..., Path]) -> Inspected:
    return opened(checkpoint_of("bert", layers=4, heads=4, seed=1))


def values(figure: HeatMap) -> np.ndarray:
    return np.array(figure.values, np.float64)


def test_before_after_and_the_change(inspected: Inspected) -> None:
    before, after, change = attention(inspected, STATE).figures
    assert before.rows == before.columns == TOKENS
    np.testing.assert_allclose(values(before).sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(values(change), values(after) - values(before), atol=1e-7)
    assert abs(values(change)).max() > 1e-3 and change.scale == "diverging"
    assert before.high == after.high == max(values(before).max(), values(after).max())
    np.testing.assert_allclose(values(before), layer_maps(inspected, STATE)[0, 1])


def test_heads_that_are_not_below_leave_one_map(inspected: Inspected) -> None:
    seen = attention(inspected, replace(STATE, out=(Head(2, 0),)))
    assert len(seen.figures) == len(seen.given) == 1
    assert "do not lie below layer 2" in seen.notes[0].en
    assert not attention(inspected, replace(STATE, out=())).notes
    assert last_start(inspected, STATE) == 0


@pytest.mark.parametrize(
    ("part", "rows", "columns"),
    [
        ("query_title", slice(1, 5), slice(6, 11)),
        ("title_query", slice(6, 11), slice(1, 5)),
        ("query", slice(1, 5), slice(1, 5)),
        ("title", slice(6, 11), slice(6, 11)),
    ],
)
def test_a_part_is_a_part(inspected: Inspected, part: str, rows: slice, columns: slice) -> None:
    state = replace(STATE, out=())
    (whole,), seen = attention(inspected, state).figures, attention(inspected, state, part)
    (figure,) = seen.figures
    np.testing.assert_array_equal(values(figure), values(whole)[rows, columns])
    assert (figure.rows, figure.columns) == (TOKENS[rows], TOKENS[columns])
    expected = 100 * values(whole)[rows, columns].sum(1).mean()
    assert seen.given[0].value == pytest.approx(expected)
    grid = all_heads(inspected, state, part).grid
    assert grid.values[2][1] == pytest.approx(expected, abs=1e-3)
    assert grid.marked == ((2, 1),)


def test_without_the_special_tokens(inspected: Inspected) -> None:
    (figure,) = attention(inspected, replace(STATE, out=()), "texts").figures
    assert figure.rows == figure.columns == (*QUERY, *TITLE)


def test_fine_tuning_strengthens_and_weakens(inspected: Inspected, base: Inspected) -> None:
    seen = tuning(inspected, base, STATE, "query_title")
    before, after, stronger, weaker = map(values, seen.figures)
    np.testing.assert_allclose(stronger - weaker, after - before, atol=1e-7)
    assert (np.minimum(stronger, weaker) == 0).all() and stronger.max() > 0
    plain = replace(STATE, out=())
    for model, found in ((base, before), (inspected, after)):
        np.testing.assert_allclose(found, values(attention(model, plain, "query_title").figures[0]))
    assert [one.way.en for one in seen.given] == ["before", "after"]
    assert "play no part" in seen.notes[0].en and not tuning(inspected, base, plain).notes


def test_other_tokens_cannot_be_compared(
    inspected: Inspected, checkpoint_of: Callable[..., Path]
) -> None:
    other = opened(checkpoint_of("xlm-roberta", layers=4, heads=4))
    seen = tuning(inspected, other, STATE)
    assert not seen.figures and "cannot be compared" in seen.notes[-1].en


def test_a_long_pair_is_drawn_a_stretch_at_a_time(inspected: Inspected) -> None:
    state = replace(STATE, title="上海到北京高铁票价" * 7, out=())
    first, later = attention(inspected, state), attention(inspected, state, start=10)
    assert last_start(inspected, state) == 16 and "stretch" in first.notes[0].en
    one, other = values(first.figures[0]), values(later.figures[0])
    assert one.shape == other.shape == (MOST_TOKENS, MOST_TOKENS)
    np.testing.assert_array_equal(one[10:, 10:], other[:-10, :-10])
    assert first.given == later.given
    last = attention(inspected, state, start=10**6).figures[0]
    assert last.columns[-1] == "[SEP]" and len(last.columns) == MOST_TOKENS
    small = overview(inspected, state).small
    assert small.shape[-2:] == (module.SMALL, module.SMALL)
    assert "64 tokens are drawn as 32 × 32" in all_heads(inspected, state).note.en
    assert small[0, 2, 1].max() == pytest.approx(layer_maps(inspected, state)[0, 1].max(), abs=1e-3)


def test_a_part_without_tokens_is_said(inspected: Inspected) -> None:
    seen = attention(inspected, replace(STATE, query="北" * 80), "title")
    assert not seen.figures and seen.given[0].value is None
    assert "no such tokens" in seen.notes[0].en
    assert all_heads(inspected, replace(STATE, query="北" * 80), "title").grid.values[0][0] is None


def test_the_picture_of_all_heads(inspected: Inspected) -> None:
    plain, masked = replace(STATE, out=()), STATE
    image = Image.open(io.BytesIO(all_heads(inspected, plain).picture))
    assert image.format == "PNG" and image.mode == "RGBA"
    assert image.size[0] == image.size[1] > 4 * 40
    assert image.getpixel((3, 3))[3] == 0  # type: ignore[index]
    pictures = {
        way: all_heads(inspected, masked, way=way).picture for way in ("before", "after", "change")
    }  # type: ignore[arg-type]
    assert len(set(pictures.values())) == 3
    assert all_heads(inspected, plain, way="change").picture == all_heads(inspected, plain).picture
    change = all_heads(inspected, masked, "query", "change").grid
    ways = [
        all_heads(inspected, masked, "query", way).grid.values[3][2] for way in ("before", "after")
    ]  # type: ignore[arg-type]
    assert change.scale == "diverging"
    assert change.values[3][2] == pytest.approx(ways[1] - ways[0], abs=1e-3)  # type: ignore[operator]


def test_another_head_asks_for_no_forward(
    inspected: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    run = inspected.run

    def counted(*given: Any) -> Any:
        calls.append(given)
        return run(*given)

    monkeypatch.setattr(inspected, "run", counted)
    monkeypatch.setattr(module, "_kept", type(module._kept)())
    for head in range(4):
        for part in PARTS:
            attention(inspected, replace(STATE, head=head), part)
            all_heads(inspected, replace(STATE, head=head), part, "change")
    assert len(calls) == 2
