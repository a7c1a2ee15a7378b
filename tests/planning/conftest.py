"""Plans made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.pruned import reference_of
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Budget, Plan, layer_map


@pytest.fixture
def plan_of() -> Callable[[Checkpoint, Sequence[KeptLayer]], Plan]:
    """`plan_of(checkpoint, kept)`: a plan of a checkpoint that keeps these layers."""

    def build(checkpoint, kept):
        teacher = reference_of(
            checkpoint.model, checkpoint.family, checkpoint.name, checkpoint.sha256
        )
        return Plan(
            teacher=teacher,
            budget=Budget(kind_of="layers", value=len(kept), share=False, asked="by hand"),
            replacement="zero",
            kept=tuple(kept),
            layer_map=layer_map(tuple(kept), teacher.layers),
        )

    return build
