"""Students of an offline teacher: each of the two reads pairs by its own block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.planning.distill import Distilled, DistillJob, LossWeights, run_distill
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import layer_map
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.batches import BatchLayout, plan_epoch, to_tensors, training_set
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.recipes import PairSource

SHAPE = {"layers": 3, "heads": 4, "hidden": 32, "labels": 5}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_both_see_what_the_scorer_sees(offline_checkpoint_of, pair_file, family):
    teacher = open_checkpoint(offline_checkpoint_of(family, below=2, **SHAPE))
    teacher.model.double()  # both ways round alike
    kept = tuple(KeptLayer(layer=n, heads=(0, 1, 2)) for n in (1, 2))
    student = smaller_checkpoint(teacher, kept)
    pairs = [(p.query, p.title) for p in PairSource(pair_file).read(labelled=True)]
    expected = [torch.from_numpy(Scorer(one).logits(pairs)) for one in (student, teacher)]
    data = training_set([PairSource(pair_file)], teacher.pair_tokenizer(), teacher.settings.labels)
    layout = BatchLayout.of(teacher.family, teacher.pad, 48, 480, student.offline)
    (plan,) = plan_epoch(data.examples, layout, 0, 0)
    batch = to_tensors(plan, data.examples, layout)
    model = Distilled(
        student.model,
        teacher.model,
        teacher.family,
        layer_map=layer_map(kept, 3),
        weights=LossWeights(),
        dtype=torch.float64,
        apart=(1, 2),
    )
    order = [i for row in plan.rows for i in row]
    seen = (model._outputs(model.model, batch, 1)[0], model._taught(batch)[0])
    for logits, wanted in zip(seen, expected, strict=True):
        torch.testing.assert_close(logits[: len(order)], wanted[order], atol=1e-5, rtol=0)


@pytest.fixture
def offline_job_of(
    offline_checkpoint_of: Callable[..., Path], job_of: Callable[..., DistillJob]
) -> Callable[..., DistillJob]:
    """As `job_of`, of a teacher whose two lowest layers of three are offline."""

    def build(*kept: int) -> DistillJob:
        job = job_of(tuple(KeptLayer(layer=n, heads=(0, 1, 2, 3)) for n in kept))
        folder = offline_checkpoint_of("bert", below=2, **SHAPE)
        return replace(job, student=replace(job.student, model=folder))

    return build


def test_the_student_keeps_the_block_of_its_layers(
    offline_job_of: Callable[..., DistillJob], settings: TuneSettings, tmp_path: Path
):
    job = replace(offline_job_of(0, 2), stop_on="nll")
    facts = run_distill(job, tmp_path / "s", settings)
    opened = open_checkpoint(tmp_path / "s", compact=True)
    assert opened.offline == Offline(1, 12, 20) and facts["steps"] == 6
    dev = job.dev.read(labelled=True)
    logits = Scorer(opened).logits([(p.query, p.title) for p in dev])
    log_p = torch.log_softmax(torch.from_numpy(logits), -1).numpy()
    nll = -np.mean([log_p[row, pair.grades[0] - 1] for row, pair in enumerate(dev)])
    assert nll == pytest.approx(facts["best"], abs=0.02)


def test_a_student_in_which_the_texts_never_meet_is_refused(
    offline_job_of: Callable[..., DistillJob], settings: TuneSettings, tmp_path: Path
):
    with pytest.raises(ArgumentError, match="no layer in which the texts meet"):
        run_distill(offline_job_of(0, 1), tmp_path / "s", settings)
