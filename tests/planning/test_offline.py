"""Offline layers in a plan: where titles begin, what rows cost, how fast they are, which is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.effects import Effects
from qt_bert.errors import EquivalenceError
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning import offline
from qt_bert.planning.budgets import Scores, Texts, parse_budget
from qt_bert.planning.offline import (
    Costs,
    OfflineTask,
    Speedups,
    before_titles,
    costs_of,
    counts_of,
    largest_free,
    layout_of,
    offline_plan,
    read_as,
    speedups,
    stored_titles,
)
from qt_bert.planning.task import QUICK, OfflineEffort, PlanTask, Sample
from qt_bert.progress import Progress, silent
from qt_bert.results.plan import Measured, OfflinePlan, OfflineRow
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_states import FORMATS, states_of
from tests.planning.made_pairs import sample

TaskOf = Callable[..., PlanTask]
JobOf = Callable[..., OfflineTask]


@pytest.fixture
def task_of(checkpoint_of, tmp_path) -> TaskOf:
    """`task_of("electra", layers=3)`: a plan to make of a tiny model, or of `checkpoint`."""

    def build(family="bert", *, checkpoint=None, pairs=24, effort=None, max_length=None, **shape):
        folder = checkpoint or checkpoint_of(family, **({"layers": 3} | shape))
        return PlanTask(
            scorer=Scorer(open_checkpoint(folder), max_length=max_length),
            budget=parse_budget("heads=0.5"),
            discovery=sample("dev.tsv", pairs, 1),
            validation=sample("test.tsv", pairs, 2),
            work=tmp_path / "work",
            effort=replace(QUICK, offline=effort or OfflineEffort(queries=3)),
            resamples=50,
        )

    return build


@pytest.fixture
def job_of(task_of) -> JobOf:
    """As `task_of`, the rows of its offline layers."""

    def build(*arguments, **options):
        task = task_of(*arguments, **options)
        layout = layout_of(task.scorer.tokenizer, task.whole_discovery)
        assert layout is not None
        return OfflineTask(
            task, task.effort.offline, layout, counts_of(task.form.layers, task.effort.offline.rows)
        )

    return build


@pytest.fixture
def unmixed(fresh_checkpoint) -> Path:
    """Four layers, of which the lowest two give nothing by attention, and no position says anything."""
    import torch
    from transformers import AutoModelForSequenceClassification

    folder = fresh_checkpoint(layers=4)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.zero_()
        for layer in model.bert.encoder.layer[:2]:
            layer.attention.output.dense.weight.zero_()
    model.save_pretrained(folder)
    return folder


def row(layers: int, low: float | None) -> OfflineRow:
    one = Measured(base=0.7, value=0.7, change=0.0, ci_low=low, ci_high=0.01)
    return OfflineRow(layers=layers, both={}, discovery={"accuracy": one})


@pytest.mark.parametrize(
    ("lows", "chosen"),
    [
        ((0.0, -0.019, -0.3), 2),
        ((-0.01, -0.02, -0.019), 3),  # the upper end of the loss must lie below the margin
        ((-0.02, -0.1, -0.3), None),
        ((None, None, None), None),
        ((), None),
    ],
)
def test_the_largest_whose_whole_interval_is_small(lows, chosen):
    rows = [row(layers, low) for layers, low in enumerate(lows, start=1)]
    assert largest_free(rows, "accuracy") == chosen
    assert largest_free(rows, "spearman") is None
    assert largest_free(rows, None) is None


def queries_of(lengths: list[int]) -> Sample:
    """Pairs with queries of so many characters, one token each."""
    made = sample("dev.tsv", 2 * len(lengths), 0).pairs
    pairs = [replace(made[i], query="狗" * length) for i, length in enumerate(lengths)]
    return Sample.of("dev.tsv", "", pairs)


@pytest.mark.parametrize(("family", "separators"), [("bert", 1), ("xlm-roberta", 2)])
def test_titles_begin_behind_nineteen_queries_of_twenty(task_of, family, separators):
    tokenizer = task_of(family).scorer.tokenizer
    found = layout_of(tokenizer, queries_of(list(range(1, 22))))
    before = int(before_titles(tokenizer, ["狗" * 20])[0])
    assert found is not None
    assert found.offline == Offline(0, before, tokenizer.max_length - before - separators)
    assert found.long == pytest.approx(1 / 21)


def test_before_a_title_stand_the_first_token_the_query_and_a_separator(task_of):
    found = before_titles(task_of().scorer.tokenizer, ["狗", "狗追猫"])
    np.testing.assert_array_equal(found, [3, 5])


def test_long_queries_leave_no_room(task_of):
    tokenizer = task_of(max_length=12).scorer.tokenizer
    assert layout_of(tokenizer, queries_of([30] * 10)) is None
    assert layout_of(tokenizer, queries_of([8] * 10)) is not None


@pytest.mark.parametrize(
    ("layers", "rows", "counts"),
    [
        (12, 3, (3, 6, 9)),
        (12, None, tuple(range(1, 12))),
        (5, 3, (1, 2, 4)),
        (4, 3, (1, 2, 3)),
        (7, 2, (2, 3, 5)),
        (2, 3, (1,)),
        (1, None, ()),
        (1, 3, ()),
    ],
)
def test_half_of_the_layers_are_always_among_the_rows(layers, rows, counts):
    assert counts_of(layers, rows) == counts


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_same_as_the_model_opened_as_an_offline_one(task_of, family):
    task = task_of(family)
    offline = Offline(2, 12, 6)
    other = read_as(task.scorer, offline)
    assert other.encoder.layers is task.scorer.encoder.layers
    whole = Scorer(other.checkpoint)
    assert whole.encoder.offline == offline and task.scorer.encoder.offline is None
    texts = task.validation.texts
    np.testing.assert_allclose(other.logits(texts), whole.logits(texts), atol=1e-5)
    assert np.abs(other.logits(texts) - task.scorer.logits(texts)).max() > 1e-3
    assert other.counts.truncated_titles > 0 and task.scorer.counts.truncated_titles == 0


def test_the_check_holds_and_sees_a_block_that_is_not_there(job_of, monkeypatch):
    job = job_of(layers=3)
    figures = job.check()
    assert figures["unmasked"] <= figures["bound"]
    assert set(figures["variants"]) == {"cut:all@0-0", "cut:all@0-1"}

    def unread(scorer, offline):
        other = read_as(scorer, offline)
        other.encoder.offline = None
        return other

    monkeypatch.setattr(offline, "read_as", unread)
    with pytest.raises(EquivalenceError):
        job_of(layers=3).check()


def on_validation(job: OfflineTask, shown: Progress = silent) -> Costs:
    return costs_of(job, job.validation, role="validation", shown=shown)


def change(job: OfflineTask, other: Scorer, metric: str) -> float | None:
    """The change of a metric where `other` stands in for the model."""
    sample = job.validation
    both = np.stack([one.logits(sample.texts) for one in (job.task.scorer, other)])
    labels = job.task.scorer.checkpoint.settings.labels
    return Effects(both, sample.pairs, labels, resamples=0, draws=0).change(1, metric)


@pytest.mark.parametrize(("family", "labels"), [("bert", 5), ("xlm-roberta", 5), ("bert", 1)])
def test_both_are_the_offline_model_of_so_many_layers(job_of, family, labels):
    job, metric = job_of(family, labels=labels), "spearman"
    found = on_validation(job)
    assert list(found.both) == [1, 2]
    assert found.positions[metric].absolute == pytest.approx(change(job, job.moved, metric))
    for layers, one in found.both.items():
        assert one[metric].absolute == pytest.approx(change(job, job.reading(layers), metric))


def test_layers_that_mix_nothing_cost_nothing(job_of: JobOf, unmixed: Path) -> None:
    found = on_validation(job_of(checkpoint=unmixed))
    for one in (found.positions, found.both[1], found.both[2]):
        for metric in ("accuracy", "qwk", "spearman"):
            assert (one[metric].absolute, one[metric].ci_low, one[metric].ci_high) == (0, 0, 0)
    assert found.both[3]["spearman"].absolute != 0


Calls = list[tuple[Sequence[Scores], Texts]]


@pytest.fixture
def calls(monkeypatch) -> Calls:
    """Times made by hand: 1 s for the model, a half and a quarter for one and two offline layers."""
    seen: Calls = []

    def timed(scorers, texts, rounds, first):
        seen.append((scorers, texts))
        return np.array([[1.0, 0.5, 0.25]]) * (100 if len(seen) == 1 else 1)

    monkeypatch.setattr(offline, "in_turns", timed)
    return seen


def measured(job: OfflineTask) -> Speedups:
    found = speedups(job)
    assert found is not None
    return found


def test_how_many_times_as_fast(job_of, calls):
    job = job_of()
    found = measured(job)
    assert [one.value for one in found.ratios] == [2.0, 4.0]
    timed = found.timed
    assert (timed.queries, timed.whole_ms, timed.states) == (3, 1000.0, "float16")
    assert timed.titles == len({pair.title for pair in job.task.validation.pairs})


def test_a_resumed_plan_has_the_same_times(job_of, calls):
    first = measured(job_of())
    count = len(calls)
    assert measured(job_of()) == first and len(calls) == count
    measured(job_of(max_length=40))  # other titles
    assert len(calls) > count


def test_one_query_is_not_enough(job_of, calls):
    assert speedups(job_of(pairs=2)) is None


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_what_is_timed_reads_states_and_gives_the_offline_models_logits(job_of, calls, family):
    job = job_of(family)
    measured(job)
    scorers, texts = calls[1]
    whole = [job.task.scorer, *(job.reading(layers) for layers in (1, 2))]
    for timed, expected in zip(scorers, whole, strict=True):
        np.testing.assert_allclose(timed.logits(texts), expected.logits(texts), atol=0.02)
    for reading in scorers[1:]:
        assert reading.split.counts.read == len(texts)
        assert reading.split.counts.unknown_titles == 0


def test_tokens_times_hidden_times_bytes(job_of):
    found = stored_titles(job_of(hidden=16).moved, ["狗追猫", "狗追猫", "苹果多少钱"])
    assert found.titles == 2 and found.tokens == 5  # (3 + 5) / 2 and a separator each
    rest = 16 + 4  # a title's key and its length
    assert found.size == {
        "float32": 5 * 16 * 4 + rest,
        "float16": 5 * 16 * 2 + rest,
        "int8": 5 * (16 + 2) + rest,
    }


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_what_stored_states_take(job_of, family):
    job = job_of(family)
    titles = [pair.title for pair in job.task.discovery.pairs]
    found = stored_titles(job.moved, titles)
    for kind in FORMATS:
        for layers in (1, 2):
            states = states_of(job.reading(layers), titles, kind)
            assert found.size[kind] == pytest.approx(states.bytes_per_title)


def test_a_model_whose_lower_layers_never_mix_returns_them(task_of, unmixed):
    found = offline_plan(task_of(checkpoint=unmixed, pairs=60))
    assert found.reason is None and found.metric == "accuracy"
    assert [row.layers for row in found.rows] == [1, 2, 3]
    assert found.chosen == 2 and found.retrain == 2
    assert found.positions["accuracy"].change == 0
    for row in found.rows[:2]:
        assert row.both["accuracy"].change == 0
        assert row.may_lose("accuracy") == 0
    assert found.at is found.rows[1]
    assert all(row.speed is not None for row in found.rows)
    assert found.discovery is not None and found.discovery.name == "dev.tsv"
    assert found.validation is not None and found.validation.n_pairs == 60
    assert found.guards["unmasked"] <= found.guards["bound"]


def test_where_all_layers_mix_half_of_them_are_to_be_retrained(task_of):
    found = offline_plan(task_of(layers=4, pairs=60, effort=OfflineEffort(rows=1, queries=2)))
    assert [row.layers for row in found.rows] == [2]
    assert found.chosen is None and found.retrain == 2 and found.at is found.rows[0]
    assert found.titles is not None and found.timed is not None
    assert found.title_start + found.title_tokens == 64 - 1


@pytest.mark.parametrize(
    ("family", "labels", "metric"),
    [("bert", 1, "pairwise_accuracy"), ("xlm-roberta", 5, "accuracy")],
)
def test_the_metric_that_labels_and_model_define_decides(task_of, family, labels, metric):
    found = offline_plan(task_of(family, labels=labels, layers=2))
    assert found.metric == metric and [row.layers for row in found.rows] == [1]
    assert set(found.rows[0].both) >= {"spearman", metric}


def test_models_without_rows_have_a_reason(task_of, offline_checkpoint_of):
    offline = offline_checkpoint_of("bert", layers=3)
    reasons = {
        "offline": task_of(checkpoint=offline),
        "one layer": task_of(layers=1),
        "no room": task_of(max_length=8),
    }
    for reason, task in reasons.items():
        layers = task.form.layers
        assert offline_plan(task) == OfflinePlan(layers=layers, reason=reason)
