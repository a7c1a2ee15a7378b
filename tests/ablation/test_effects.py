from collections.abc import Sequence

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from qt_bert.ablation.effects import EffectRow, Effects, effect_rows, read_effects, write_effects
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.comparison import compare
from qt_bert.stats.estimate import bootstrap_weights
from qt_bert.stats.tests import q_values
from tests.conftest import FIVE, ONE, THREE


def pairs_of(grades: Sequence[GradeSet | None], queries: Sequence[str] | None = None) -> list[Pair]:
    names = queries or [f"查询{row}" for row in range(len(grades))]
    rows = enumerate(zip(names, grades, strict=True))
    return [Pair(query, "标题", one, str(row), row + 1, None, {}) for row, (query, one) in rows]


def logits_of(*variants: Sequence[Sequence[float]]) -> np.ndarray:
    """Logits whose softmax are these probabilities, which must be above 0."""
    return np.log(np.array(variants)).astype(np.float32)


def simulated(
    n: int, variants: int, noise: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, list[Pair]]:
    """n pairs of n / 3 queries; masks add noise to the base's logits."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(1, 6, n)
    base = rng.normal(size=(n, 5)) - np.abs(np.arange(1, 6) - grades[:, None])
    masks = base + noise * rng.normal(size=(variants, n, 5))
    pairs = pairs_of([(int(g),) for g in grades], [f"查询{row // 3}" for row in range(n)])
    return np.concatenate([base[None], masks]).astype(np.float32), pairs


BASE = [[0.1, 0.1, 0.1, 0.1, 0.6], [0.6, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1]]
MASK = [[0.1, 0.1, 0.1, 0.1, 0.6], [0.1, 0.1, 0.1, 0.6, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2]]
HAND_LABELS: list[GradeSet | None] = [(5,), (1,), (3,)]


@pytest.fixture
def hand() -> Effects:
    """Three pairs of three queries: the mask turns a 1 into a 4 and the 3 into a tie, read as 1."""
    return Effects(logits_of(BASE, MASK), pairs_of(HAND_LABELS), FIVE, resamples=50, draws=99)


@pytest.mark.parametrize(
    ("metric", "base", "value"),
    [
        ("accuracy", 1, 1 / 3),
        ("macro_f1", 1, 1 / 4),  # F1 of 1, 3, 4, 5: 0, 0, 0, 1
        ("mae", 0, (3 + 2) / 3),
        ("qwk", 1, 1 - (9 + 4) / (51 / 3)),  # 51: every label against every prediction, squared
        ("expected_grade", (4.0 + 2.0 + 3.0) / 3, (4.0 + 3.5 + 3.0) / 3),
        ("changed_grades", 0, 2 / 3),
        ("kl", 0, (0.5 * np.log(6) + 0.6 * np.log(3) + 0.4 * np.log(0.5)) / 3),
        ("log_loss", -np.log(0.6), -(np.log(0.6) + np.log(0.1) + np.log(0.2)) / 3),
    ],
)
def test_changes_computed_by_hand(hand, metric, base, value):
    assert hand.base(metric) == pytest.approx(base, abs=1e-6)
    assert hand.value(1, metric) == pytest.approx(value, abs=1e-6)
    assert hand.change(1, metric) == pytest.approx(value - base, abs=1e-6)


def test_resampled_changes_are_those_of_the_pairs_drawn():
    logits, pairs = simulated(60, 2)
    effects = Effects(logits, pairs, FIVE, resamples=40, seed=5)
    weights = np.concatenate(list(bootstrap_weights(20, 40, 5, width=60))).astype(int)
    truth = np.array([pair.grades[0] for pair in pairs if pair.grades])
    for number in (0, 17, 39):
        drawn = np.repeat(np.arange(60), np.repeat(weights[number], 3))
        base, mask = (logits[row][drawn].argmax(axis=1) + 1 for row in (0, 2))
        right = (mask == truth[drawn]).mean() - (base == truth[drawn]).mean()
        kappas = [cohen_kappa_score(truth[drawn], one, weights="quadratic") for one in (base, mask)]
        changed = (mask != base).mean()
        assert effects.resampled_by(2, ["accuracy"])[0][number] == pytest.approx(right)
        assert effects.resampled_by(2, ["qwk"])[0][number] == pytest.approx(kappas[1] - kappas[0])
        assert effects.resampled_by(2, ["changed_grades"])[0][number] == pytest.approx(changed)


def test_resamples_are_the_same_however_they_are_kept(monkeypatch):
    logits, pairs = simulated(60, 1)
    kept = Effects(logits, pairs, FIVE, resamples=100)
    monkeypatch.setattr("qt_bert.ablation.effects.KEPT_WEIGHTS", 0)
    drawn = Effects(logits, pairs, FIVE, resamples=100)
    several = drawn.resampled_by(1, ["qwk", "kl"])
    assert (several[0] == kept.resampled_by(1, ["qwk"])[0]).all()
    assert (several[1] == kept.resampled_by(1, ["kl"])[0]).all()


def test_without_resamples_or_with_one_query_there_is_no_interval(hand):
    assert hand.interval(np.array([])) is None
    single = Effects(logits_of(BASE, MASK), pairs_of(HAND_LABELS, ["猫"] * 3), FIVE, resamples=20)
    assert single.interval(single.resampled_by(1, ["accuracy"])[0]) is None


def test_p_is_that_of_a_comparison_with_the_same_seed():
    logits, pairs = simulated(90, 4)
    effects = Effects(logits, pairs, FIVE, draws=500, seed=3)
    base = judge_logits(logits[0], pairs, FIVE)
    for metric in ("accuracy", "qwk", "spearman"):
        result = effects.p_values([1, 4, 2], metric)
        for variant, p in zip([1, 4, 2], result, strict=True):
            other = judge_logits(logits[variant], pairs, FIVE)
            alone = compare(base, other, metrics=[metric], resamples=0, draws=500, seed=3)
            assert p == alone.metrics[metric].p


def test_a_family_is_tested_in_blocks_with_the_same_swaps(monkeypatch):
    logits, pairs = simulated(60, 5)
    effects = Effects(logits, pairs, FIVE, draws=300)
    whole = effects.p_values(range(1, 6), "qwk")
    monkeypatch.setattr("qt_bert.ablation.effects.VARIANTS_AT_ONCE", 2)
    assert effects.p_values(range(1, 6), "qwk") == whole


def test_a_large_family_gets_forty_swaps_a_variant():
    logits, pairs = simulated(30, 1)
    few = Effects(logits, pairs, FIVE, draws=1)
    many = Effects(logits, pairs, FIVE, draws=120)
    assert few.p_values([1, 1, 1], "accuracy") == many.p_values([1] * 3, "accuracy")


def test_a_one_logit_model_is_judged_by_order():
    pairs = pairs_of([(5,), (1,), (3,), (2,)], ["猫", "猫", "狗", "狗"])
    logits = np.array([[[4.0], [1.0], [2.0], [0.0]], [[0.0], [1.0], [2.0], [4.0]]])
    effects = Effects(logits, pairs, ONE, resamples=20, draws=50)
    metrics = ("pairwise_accuracy", "ndcg_at_3", "ndcg_at_10", "spearman", "expected_grade")
    assert effects.metrics == metrics
    assert effects.tested == ("pairwise_accuracy",)
    # Ranks 4 2 3 1 and 1 2 3 4 of the scores against 4 1 3 2 of the labels: 1 − 6 · 2 / 60, 1 − 6 · 14 / 60.
    assert effects.base("spearman") == pytest.approx(0.8)
    assert effects.value(1, "spearman") == pytest.approx(-0.4)
    assert effects.change(1, "pairwise_accuracy") == pytest.approx(-1)
    assert effects.change(1, "expected_grade") == pytest.approx(0)
    assert effects.value(1, "accuracy") is None
    assert effects.value(1, "kl") is None
    assert np.isnan(effects.resampled_by(1, ["accuracy"])[0]).all()
    assert effects.p_values([1], "qwk") == [None]


def test_levels_that_are_no_grades():
    logits = np.array([np.eye(3), np.eye(3)[[0, 1, 1]]])
    effects = Effects(logits, pairs_of([(1,), (2,), (3,)]), THREE, resamples=10)
    assert effects.change(1, "accuracy") == pytest.approx(-1 / 3)
    assert effects.change(1, "mae") == pytest.approx(1 / 3)
    top, rest = np.e / (np.e + 2), 1 / (np.e + 2)
    assert effects.base("expected_grade") == pytest.approx(1)
    assert effects.value(1, "expected_grade") == pytest.approx((3 * rest + 1 + 1) / 3)
    assert effects.base("log_loss") == pytest.approx(-np.log(top))


def test_coarse_labels_are_judged_at_the_levels_of_the_file():
    pairs = pairs_of([(1, 2), (3, 4), (5,)])
    mask = [[0.1, 0.5, 0.1, 0.1, 0.2], [0.1, 0.1, 0.1, 0.5, 0.2], [0.1, 0.1, 0.1, 0.5, 0.2]]
    effects = Effects(logits_of(BASE[::-1], mask), pairs, FIVE, resamples=10, draws=50)
    assert effects.tested == ("accuracy", "qwk")
    assert effects.base("accuracy") == pytest.approx(1 / 3)
    assert effects.value(1, "accuracy") == pytest.approx(2 / 3)
    assert effects.value(1, "changed_grades") == 1
    assert effects.value(1, "log_loss") == pytest.approx(-np.log([0.6, 0.6, 0.2]).mean(), abs=1e-6)
    assert effects.value(1, "log_loss") == pytest.approx(effects.value(1, "nll"))


def test_overlapping_labels_leave_accuracy_and_the_loss():
    effects = Effects(logits_of(BASE, MASK), pairs_of([(4, 5), (1, 2, 3), (3, 4)]), FIVE)
    assert effects.metrics == ("accuracy", "expected_grade", "changed_grades", "kl", "log_loss")
    assert effects.tested == ("accuracy",)
    assert effects.base("log_loss") == pytest.approx(-np.log([0.7, 0.8, 0.7]).mean(), abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "metrics"),
    [(FIVE, ("expected_grade", "changed_grades", "kl")), (ONE, ("expected_grade",))],
)
def test_pairs_without_labels_leave_what_needs_none(labels, metrics):
    logits = logits_of(BASE, MASK)[..., : labels.logits]
    effects = Effects(logits, pairs_of([None] * 3), labels, resamples=10)
    assert effects.metrics == metrics
    assert effects.tested == ()
    assert effects.value(1, "accuracy") is None
    labelled = Effects(logits, pairs_of(HAND_LABELS), labels, resamples=10)
    for metric in metrics:
        assert effects.change(1, metric) == labelled.change(1, metric)


def test_a_metric_without_a_value_is_none():
    effects = Effects(logits_of(BASE[:1], BASE[:1]), pairs_of([(5,)]), FIVE, resamples=10)
    assert effects.change(1, "qwk") is None
    assert effects.p_values([1], "qwk") == [None]
    untested = Effects(logits_of(BASE, MASK), pairs_of(HAND_LABELS), FIVE, draws=0)
    assert untested.p_values([1], "accuracy") == [None]
    far = np.array([np.eye(5)[[4, 0]] * 2e4, np.eye(5)[[0, 4]] * 2e4])
    effects = Effects(far, pairs_of([(5,), (1,)]), FIVE, resamples=10)
    assert effects.value(1, "kl") == pytest.approx(2e4)
    assert effects.value(1, "log_loss") == pytest.approx(effects.value(1, "nll"))


def test_bad_arguments_are_refused():
    logits, pairs = logits_of(BASE, MASK), pairs_of(HAND_LABELS)
    with pytest.raises(ArgumentError, match="1 of 3 pairs have no label .* line 2"):
        Effects(logits, pairs_of([(5,), None, (3,)]), FIVE)
    with pytest.raises(ArgumentError, match="no pairs"):
        Effects(logits[:, :0], [], FIVE)
    with pytest.raises(ArgumentError, match="-1 draws"):
        Effects(logits, pairs, FIVE, draws=-1)
    logits[1, 2, 0] = np.nan
    with pytest.raises(ArgumentError, match="variant 1: pair 2 has the logits"):
        Effects(logits, pairs, FIVE).value(1, "kl")


# The table of effects.


COLUMNS = "name,metric,base,value,absolute,relative,ci_low,ci_high,p,q,n_pairs,n_queries"
VARIANTS = [
    NONE,
    Variant("L0H0", family="single"),
    Variant("L0H1", family="single"),
    Variant("L0", family="layers"),
    Variant("random:k2#00", family="random", draw=0),
]


def effects_of(right: np.ndarray, **options: int) -> Effects:
    """Effects on pairs of grade 5, two a query, that variants grade 5 where `right` [V, P], else 1."""
    logits = np.where(right[..., None], [0, 0, 0, 0, 9], [9, 0, 0, 0, 0])
    queries = [f"查询{row // 2}" for row in range(right.shape[1])]
    pairs = pairs_of([(5,)] * right.shape[1], queries)
    return Effects(logits.astype(np.float32), pairs, FIVE, **options)


@pytest.fixture(scope="module")
def effects() -> Effects:
    shares = np.array([0.9, 0.85, 0.2, 0.5, 0.3])
    right = np.random.default_rng(0).random((5, 40)) < shares[:, None]
    return effects_of(right, resamples=200, draws=499)


@pytest.fixture(scope="module")
def rows(effects) -> list[EffectRow]:
    return effect_rows(effects, VARIANTS)


def test_a_row_holds_value_change_and_interval(effects, rows):
    names = [variant.name for variant in VARIANTS[1:]]
    assert [row[:2] for row in rows] == [(n, metric) for n in names for metric in effects.metrics]
    assert {(row.n_pairs, row.n_queries) for row in rows} == {(40, 20)}
    row = next(row for row in rows if (row.name, row.metric) == ("L0", "accuracy"))
    assert (row.base, row.value) == (effects.base("accuracy"), effects.value(3, "accuracy"))
    assert row.base is not None and row.value is not None
    assert row.absolute == row.value - row.base
    assert row.relative == row.absolute / row.base
    interval = effects.interval(effects.resampled_by(3, ["accuracy"])[0])
    assert (row.ci_low, row.ci_high) == interval


def test_a_relative_change_needs_a_base_above_zero():
    right = np.zeros((2, 6), dtype=bool)
    right[1] = True
    result = effect_rows(effects_of(right, resamples=10, draws=9), VARIANTS[:2])
    by_metric = {row.metric: row for row in result}
    assert (by_metric["accuracy"].absolute, by_metric["accuracy"].relative) == (1, None)
    assert (by_metric["changed_grades"].absolute, by_metric["changed_grades"].relative) == (1, None)
    assert by_metric["mae"].relative == -1


def test_q_is_over_one_family_and_one_metric(effects, rows):
    tested = {(row.name, row.metric): (row.p, row.q) for row in rows if row.p is not None}
    p_values = effects.p_values([1, 2], "accuracy")
    q = q_values(p_values)
    assert tested["L0H0", "accuracy"] == (p_values[0], q[0])
    assert tested["L0H1", "accuracy"] == (p_values[1], q[1])
    [alone] = effects.p_values([3], "accuracy")
    assert tested["L0", "accuracy"] == (alone, alone)
    # Random draws and other metrics get no p.
    assert {name for name, _ in tested} == {"L0H0", "L0H1", "L0"}
    assert {metric for _, metric in tested} <= {"accuracy", "qwk"}
    assert all(row.ci_low is not None for row in rows if row.metric == "accuracy")


def test_nothing_undefined_is_stored_as_a_number():
    right = np.ones((2, 4), dtype=bool)
    result = effect_rows(effects_of(right, resamples=10, draws=9), VARIANTS[:2])
    qwk = next(row for row in result if row.metric == "qwk")
    assert tuple(qwk) == ("L0H0", "qwk", *[None] * 8, 4, 2)


def test_a_file_holds_nine_digits_and_empty_cells(tmp_path, rows):
    path = tmp_path / "effects.csv"
    row = EffectRow("L0,头", "accuracy", 1 / 3, 0.5, 1 / 6, None, None, 1e-12, 0.01, None, 40, 20)
    write_effects(path, [row])
    assert path.read_text(encoding="utf-8") == (
        f'{COLUMNS}\n"L0,头",accuracy,0.333333333,0.5,0.166666667,,,1e-12,0.01,,40,20\n'
    )
    write_effects(path, rows)
    first, back = path.read_bytes(), read_effects(path)
    for one, other in zip(back, rows, strict=True):
        assert one[:2] == other[:2]
        assert [cell is None for cell in one] == [cell is None for cell in other]
        assert [cell or 0 for cell in one[2:]] == pytest.approx(
            [cell or 0 for cell in other[2:]], rel=1e-8
        )
    write_effects(path, back)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"name,metric\n", "line 1: the columns are not name, metric"),
        (f"{COLUMNS}\nL0,kl,0\n", "line 2: 3 cells, not 12"),
        (f"{COLUMNS}\nL0,kl,0,1,1,,,,,,4,2\nL1,kl,x,1,1,,,,,,4,2\n", "line 3: .*'x'"),
        (f"{COLUMNS}\nL0,kl,nan,1,1,,,,,,4,2\n", "line 2: 'nan' is no number"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    path = tmp_path / "effects.csv"
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(RunFolderError, match=message):
        read_effects(path)
