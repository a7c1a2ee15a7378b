"""States in fewer bytes: how far they move, and what cannot be stored."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.scoring.title_states import FORMATS, check_format, pack

STATES = np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32) * 3
ALL = np.arange(50)


def test_float32_is_exact_and_float16_rounds() -> None:
    assert (pack(STATES, "float32").rows(ALL) == STATES).all()
    short = pack(STATES, "float16")
    assert short.values.nbytes * 2 == STATES.nbytes
    assert (short.rows(ALL) == STATES.astype(np.float16).astype(np.float32)).all()


def test_int8_moves_no_state_by_more_than_half_a_step() -> None:
    packed = pack(STATES, "int8")
    assert packed.values.dtype == np.int8 and packed.scales is not None
    assert packed.values.nbytes + packed.scales.nbytes == 50 * (24 + 2)
    steps = np.abs(STATES).max(1, keepdims=True) / 127
    assert (np.abs(packed.rows(ALL) - STATES) <= 0.5 * steps * 1.15).all()
    np.testing.assert_allclose(packed.scales, steps[:, 0], rtol=1e-3)


def test_hand_computed_int8() -> None:
    packed = pack(np.array([[127, -63.6, 0.4], [0, 0, 0]], np.float32), "int8")
    assert packed.values.tolist() == [[127, -64, 0], [0, 0, 0]]
    assert packed.rows(np.array([1, 0])).tolist() == [[0, 0, 0], [127, -64, 0]]


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_that_a_format_does_not_hold(dtype: str) -> None:
    with pytest.raises(ArgumentError, match="no finite numbers"):
        pack(np.array([[np.nan, 1]], np.float32), check_format(dtype))
    if dtype != "float32":
        with pytest.raises(ArgumentError, match="try --dtype float32"):
            pack(np.array([[1e30, 1]], np.float32), check_format(dtype))


def test_an_unknown_format() -> None:
    with pytest.raises(ArgumentError, match="stored as float32, float16, int8"):
        check_format("int4")
