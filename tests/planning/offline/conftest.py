"""Tasks of tiny models, and a model whose lower layers never mix the texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning.offline import OfflineTask, counts_of, layout_of
from qt_bert.planning.shapes import parse_budget
from qt_bert.planning.task import QUICK, OfflineEffort, PlanTask
from qt_bert.scoring.bulk import Scorer
from tests.planning.made_pairs import sample

TaskOf = Callable[..., PlanTask]
JobOf = Callable[..., OfflineTask]


@pytest.fixture
def task_of(checkpoint_of: Callable[..., Path], tmp_path: Path) -> TaskOf:
    """`task_of("electra", layers=3)`: a plan to make of a tiny model, or of `checkpoint`."""

    def build(
        family: str = "bert",
        *,
        checkpoint: Path | None = None,
        pairs: int = 24,
        effort: OfflineEffort | None = None,
        max_length: int | None = None,
        **shape: Any,
    ) -> PlanTask:
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
def job_of(task_of: TaskOf) -> JobOf:
    """As `task_of`, the rows of its offline layers."""

    def build(*arguments: Any, **options: Any) -> OfflineTask:
        task = task_of(*arguments, **options)
        layout = layout_of(task.scorer.tokenizer, task.whole_discovery)
        assert layout is not None
        return OfflineTask(
            task, task.effort.offline, layout, counts_of(task.form.layers, task.effort.offline.rows)
        )

    return build


@pytest.fixture
def unmixed(fresh_checkpoint: Callable[..., Path]) -> Path:
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
