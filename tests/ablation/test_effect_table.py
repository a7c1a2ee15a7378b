from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.effects import EffectRow, Effects, effect_rows, read_effects, write_effects
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.card import ModelLabels
from qt_bert.stats.tests import q_values

FIVE = ModelLabels(5, tuple((grade,) for grade in range(1, 6)))
COLUMNS = "name,metric,base,value,absolute,relative,ci_low,ci_high,p,q,n_pairs,n_queries"
NAMES = ["none", "L0H0", "L0H1", "L0", "random:k2#00"]
FAMILIES = ["", "single", "single", "layers", "random"]
DRAWS = [None, None, None, None, 0]


def effects_of(right: np.ndarray, **options: int) -> Effects:
    """Effects on pairs of grade 5, two a query, that variants grade 5 where `right` [V, P], else 1."""
    logits = np.where(right[..., None], [0, 0, 0, 0, 9], [9, 0, 0, 0, 0])
    pairs = [
        Pair(f"查询{row // 2}", "标题", (5,), str(row), row + 1, None, {})
        for row in range(right.shape[1])
    ]
    return Effects(logits.astype(np.float32), pairs, FIVE, **options)


@pytest.fixture(scope="module")
def effects() -> Effects:
    shares = np.array([0.9, 0.85, 0.2, 0.5, 0.3])
    right = np.random.default_rng(0).random((5, 40)) < shares[:, None]
    return effects_of(right, resamples=200, draws=499)


@pytest.fixture(scope="module")
def rows(effects: Effects) -> list[EffectRow]:
    return effect_rows(effects, NAMES, FAMILIES, DRAWS)


def test_every_variant_but_the_unmasked_has_a_row_a_metric(
    effects: Effects, rows: list[EffectRow]
) -> None:
    assert [(row.name, row.metric) for row in rows] == [
        (name, metric) for name in NAMES[1:] for metric in effects.metrics
    ]
    assert {(row.n_pairs, row.n_queries) for row in rows} == {(40, 20)}


def test_a_row_holds_value_change_and_interval(effects: Effects, rows: list[EffectRow]) -> None:
    row = next(row for row in rows if (row.name, row.metric) == ("L0", "accuracy"))
    assert (row.base, row.value) == (effects.base("accuracy"), effects.value(3, "accuracy"))
    assert row.base is not None and row.value is not None
    assert row.absolute == row.value - row.base
    assert row.relative == row.absolute / row.base
    interval = effects.interval(effects.resampled(3, "accuracy"))
    assert (row.ci_low, row.ci_high) == interval


def test_a_relative_change_needs_a_base_above_zero() -> None:
    right = np.zeros((2, 6), dtype=bool)
    right[1] = True
    rows = effect_rows(effects_of(right, resamples=10, draws=9), NAMES[:2], FAMILIES[:2], DRAWS[:2])
    by_metric = {row.metric: row for row in rows}
    assert (by_metric["accuracy"].absolute, by_metric["accuracy"].relative) == (1, None)
    assert (by_metric["changed_grades"].absolute, by_metric["changed_grades"].relative) == (1, None)
    assert by_metric["mae"].relative == -1


def test_q_is_over_one_family_and_one_metric(effects: Effects, rows: list[EffectRow]) -> None:
    tested = {(row.name, row.metric): (row.p, row.q) for row in rows if row.p is not None}
    p_values = effects.p_values([1, 2], "accuracy")
    q = q_values(p_values)
    assert tested["L0H0", "accuracy"] == (p_values[0], q[0])
    assert tested["L0H1", "accuracy"] == (p_values[1], q[1])
    [alone] = effects.p_values([3], "accuracy")
    assert tested["L0", "accuracy"] == (alone, alone)


def test_random_draws_and_other_metrics_get_no_p(rows: list[EffectRow]) -> None:
    assert {row.name for row in rows if row.p is not None} == set(NAMES[1:4])
    assert {row.metric for row in rows if row.p is not None} <= {"accuracy", "qwk"}
    assert all(row.ci_low is not None for row in rows if row.metric == "accuracy")


def test_nothing_undefined_is_stored_as_a_number() -> None:
    right = np.ones((2, 4), dtype=bool)
    rows = effect_rows(effects_of(right, resamples=10, draws=9), NAMES[:2], FAMILIES[:2], DRAWS[:2])
    qwk = next(row for row in rows if row.metric == "qwk")
    assert tuple(qwk) == ("L0H0", "qwk", *[None] * 8, 4, 2)


def test_progress_counts_variants(effects: Effects) -> None:
    class Counter:
        done = 0

        def advance(self, amount: int = 1, note: str = "") -> None:
            self.done += amount

    counter = Counter()
    effect_rows(effects, NAMES, FAMILIES, DRAWS, shown=counter)
    assert counter.done == 4


def test_one_entry_a_variant_is_needed(effects: Effects) -> None:
    with pytest.raises(ArgumentError, match="4 names, 5 families and 5 draws for 5 variants"):
        effect_rows(effects, NAMES[:4], FAMILIES, DRAWS)


def test_a_file_holds_nine_digits_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "effects.csv"
    row = EffectRow("L0,头", "accuracy", 1 / 3, 0.5, 1 / 6, None, None, 1e-12, 0.01, None, 40, 20)
    write_effects(path, [row])
    assert path.read_text(encoding="utf-8") == (
        f'{COLUMNS}\n"L0,头",accuracy,0.333333333,0.5,0.166666667,,,1e-12,0.01,,40,20\n'
    )
    assert list(tmp_path.iterdir()) == [path]


def test_rows_come_back(tmp_path: Path, rows: list[EffectRow]) -> None:
    path = tmp_path / "effects.csv"
    write_effects(path, rows)
    back = read_effects(path)
    assert len(back) == len(rows)
    for one, other in zip(back, rows, strict=True):
        assert one[:2] == other[:2]
        assert [cell is None for cell in one] == [cell is None for cell in other]
        assert [cell or 0 for cell in one[2:]] == pytest.approx(
            [cell or 0 for cell in other[2:]], rel=1e-8
        )
    first = path.read_bytes()
    write_effects(path, back)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the columns are not name, metric"),
        ("name,metric\n", "line 1: the columns are not name, metric"),
        (f"{COLUMNS}\nL0,kl,0\n", "line 2: 3 cells, not 12"),
        (f"{COLUMNS}\nL0,kl,0,1,1,,,,,,4,2\nL1,kl,x,1,1,,,,,,4,2\n", "line 3: .*'x'"),
        (f"{COLUMNS}\nL0,kl,nan,1,1,,,,,,4,2\n", "line 2: 'nan' is no number"),
        (f"{COLUMNS}\nL0,kl,0,1,1,,,,,,,2\n", "line 2: invalid literal"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "effects.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RunFolderError, match=message):
        read_effects(path)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_effects(tmp_path / "effects.csv")
    (tmp_path / "effects.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_effects(tmp_path / "effects.csv")
