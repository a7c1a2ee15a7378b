"""Small jobs: a teacher of three layers, sixteen pairs, a few steps."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import DistillJob, Student
from qt_bert.results.kept import KeptLayer
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.recipes import PairSource
from tests.conftest import PAIRS, write_pairs

KEPT = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=2, heads=(0, 1, 2, 3)))
"""The lowest layer with half its heads, and the highest whole."""


@pytest.fixture
def settings() -> TuneSettings:
    return TuneSettings(
        max_steps=6, lr=1e-3, slots=192, dtype="float32", evaluations=1, compile=False
    )


@pytest.fixture
def texts_file(tmp_path) -> Path:
    """Eight queries and titles without grades."""
    return write_pairs(tmp_path / "texts.tsv", [pair[:2] for pair in PAIRS])


@pytest.fixture
def job_of(checkpoint_of, plan_of, pair_file, texts_file) -> Callable[..., DistillJob]:
    """`job_of(kept, loss=…, labels=1)`: labelled and unlabelled pairs, judged on the labelled."""

    def build(kept=KEPT, *, loss=None, labels=5, family="bert", **shape):
        folder = checkpoint_of(family, layers=3, heads=4, hidden=32, labels=labels, **shape)
        plan = plan_of(open_checkpoint(folder), kept)
        return DistillJob(
            student=Student(folder, plan),
            sources=(PairSource(pair_file), PairSource(texts_file, unlabelled=True)),
            dev=PairSource(pair_file),
            loss=loss,
            max_length=48,
        )

    return build
