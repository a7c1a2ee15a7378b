"""Plans made by hand."""

from collections.abc import Sequence

import pytest

from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.pruned import reference_of
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Budget, Plan


def plan_by_hand(checkpoint: Checkpoint, kept: Sequence[KeptLayer]) -> Plan:
    """A plan of a checkpoint that keeps these layers."""
    teacher = reference_of(checkpoint.model, checkpoint.family, checkpoint.name, checkpoint.sha256)
    return Plan(
        teacher=teacher,
        budget=Budget(kind_of="layers", value=len(kept), share=False, asked="by hand"),
        kept=tuple(kept),
    )


@pytest.fixture
def plan_of():
    return plan_by_hand
