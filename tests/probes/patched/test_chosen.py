"""Heads named by a share: signs drawn at random, against every assignment of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Head, Shape
from qt_bert.probes.patched.chosen import choose, sign_flip_p
from qt_bert.probes.patched.effects import Gap


def test_signs_against_every_assignment() -> None:
    sums = np.array([[1.0, 0.5, 2.0, 0.25, 1.5], [1.0, -0.5, 2.0, -0.25, -1.5], [0.0] * 5])
    signs = np.array(list(product((-1, 1), repeat=5)))
    exact = (signs @ sums.T >= sums.sum(1) - 1e-9).mean(0)
    assert exact[0] == 1 / 32 and exact[2] == 1
    np.testing.assert_allclose(sign_flip_p(sums, seed=0), exact, atol=0.03)


def test_more_rows_are_tested_with_more_draws() -> None:
    sums = np.ones((60, 40))
    assert sign_flip_p(sums[:1], 0)[0] == pytest.approx(1 / 1000)
    assert sign_flip_p(sums, 0)[0] == pytest.approx(1 / 1501)


def singles(shape: Shape) -> list[Variant]:
    return [Variant(str(head), (HeadMask((head,)),)) for head in shape.all_heads]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_heads_need_a_share_and_its_test(sign: float) -> None:
    shape = Shape(2, 2, frozenset({(1, 0)}))
    gap = Gap.of(np.full(30, sign), [str(n) for n in range(30)], 50, 0)
    moves = sign * np.stack(
        [
            np.full(30, 0.3),  # large and sure
            np.full(30, 0.01),  # sure and small
            np.tile([4.0, -3.8], 15),  # large and unsure
        ]
    )
    found = choose(singles(shape), moves, gap, shape, seed=0)
    np.testing.assert_allclose(found.values, [0.3, 0.01, 0.1])
    assert found.heads == [Head(0, 0)]
    assert found.per_query.shape == (30, 2, 2)
    assert np.isnan(found.per_query[:, 1, 0]).all()
    assert found.per_query[0, 1, 1] == pytest.approx(4.0)


def test_without_a_gap_no_head_is_named() -> None:
    shape = Shape(1, 2)
    gap = Gap.of(np.tile([1.0, -1.0], 10), [str(n) for n in range(20)], 50, 0)
    found = choose(singles(shape), np.ones((2, 20)), gap, shape, seed=0)
    assert found.heads == [] and np.isnan(found.values).all()
