"""What shapes cost, against models that were really made so."""

from __future__ import annotations

import pytest

from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.planning.shapes import Form, form_of, parameter_costs, parameters_of, teacher_of
from tests.conftest import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", [Form(3, 6, 32), Form(2, 4, 32), Form(2, 3, 7), Form(1, 0, 1)])
def test_parameters_are_those_of_the_pruned_model(checkpoint_of, family, form):
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3))
    teacher, whole = teacher_of(checkpoint.model, checkpoint.family, "t", "0")
    assert whole == Form(3, 6, 32)
    kept = form.example(teacher)
    assert form_of(kept, teacher) == form
    units = {one.layer: range(one.units) for one in kept if one.units is not None}
    small = smaller_checkpoint(checkpoint, kept, units=units)
    costs = parameter_costs(checkpoint.model, checkpoint.family)
    assert costs.of(form) == parameters_of(small.model)
    assert costs.of(whole) == checkpoint.parameters


def test_heads_of_a_form_are_spread_over_its_layers(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of(layers=3))
    teacher, _ = teacher_of(checkpoint.model, checkpoint.family, "t", "0")
    assert [one.heads for one in Form(3, 4, 32).example(teacher)] == [(0, 1), (0,), (0,)]


def test_every_form_of_an_offline_model_has_a_layer_in_which_the_texts_meet(offline_checkpoint_of):
    checkpoint = open_checkpoint(offline_checkpoint_of(layers=3, below=2))
    teacher, whole = teacher_of(checkpoint.model, checkpoint.family, "t", "0")
    for layers in (1, 2, 3):
        kept = Form(layers, 2 * layers, whole.units).example(teacher)
        assert smaller_checkpoint(checkpoint, kept).offline.layers == layers - 1
