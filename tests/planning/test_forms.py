"""Shapes within a budget: the largest ones, whole layers first."""

from __future__ import annotations

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning.shapes import Costs, Form, forms_within, parse_budget

WHOLE = Form(layers=4, heads=16, units=64)
# 1,000 for a layer: 200 + 4 × 40 + 64 × 10.
COSTS = Costs(fixed=1000, layer=200, head=40, unit=10)


def forms(text):
    return forms_within(parse_budget(text), COSTS, WHOLE)


def test_costs_add_up():
    assert COSTS.of(WHOLE) == 5000
    assert COSTS.of(Form(2, 3, 10)) == 1000 + 2 * (200 + 100) + 3 * 40


def test_as_few_whole_layers_go_as_meet_it():
    assert forms("params=3000")[0] == Form(2, 8, 64)
    assert forms("params=3999")[0] == Form(2, 8, 64)


def test_one_layer_more_gives_up_units_for_its_place():
    # Three layers with u units cost 1,000 + 3 × (360 + 10 u): 3,000 at u = 30; steps of two.
    assert forms("params=3000")[1] == Form(3, 12, 30)
    assert COSTS.of(Form(3, 12, 30)) <= 3000 < COSTS.of(Form(3, 12, 32))


def test_then_heads_go_where_units_are_not_enough():
    # Four layers at 16 units: 1,000 + 4 × 360 + 40 × heads.
    assert forms("params=4000") == (Form(3, 12, 64), Form(4, 16, 38))
    whole, narrow = forms("params=2600")
    assert (whole, narrow.layers) == (Form(1, 4, 64), 2)
    costs = Costs(fixed=0, layer=0, head=100, unit=1)
    assert forms_within(parse_budget("params=1300"), costs, WHOLE)[-1] == Form(3, 12, 32)
    assert forms_within(parse_budget("params=1000"), costs, WHOLE)[-1] == Form(3, 9, 16)


def test_a_share_is_of_the_whole_model():
    assert forms("params=0.6") == forms("params=3000")


def test_no_form_goes_over():
    for target in range(1400, 4990, 37):
        for form in forms(f"params={target}"):
            assert COSTS.of(form) <= target


def test_out_of_reach_names_the_nearest_that_can_be_met():
    # One layer of 1 head and 16 units: 1,000 + 200 + 40 + 160.
    with pytest.raises(ArgumentError) as error:
        forms("params=1399")
    assert "params=1400 is the nearest" in str(error.value)
    assert "embeddings and the head, which cannot go, are 20%" in str(error.value)
    assert forms("params=1400") == (Form(1, 1, 16),)
    with pytest.raises(ArgumentError, match=r"params=0\.28 is the nearest"):
        forms("params=0.1")
    assert forms("params=0.28") == (Form(1, 1, 16),)


def test_the_nearest_that_is_named_is_met_where_steps_miss_the_narrowest():
    # 71 units go in steps of two: 69, 67, …, 19; the narrowest has 18. One head cannot go.
    whole, costs = Form(layers=1, heads=1, units=71), Costs(fixed=100, layer=0, head=0, unit=10)
    with pytest.raises(ArgumentError, match="params=280 is the nearest"):
        forms_within(parse_budget("params=200"), costs, whole)
    assert forms_within(parse_budget("params=280"), costs, whole) == (Form(1, 1, 18),)


def test_what_the_model_meets_as_it_is_is_refused():
    with pytest.raises(ArgumentError, match="meets it as it is"):
        forms("params=5000")


def test_a_single_layer_can_only_get_narrower():
    whole = Form(layers=1, heads=4, units=64)
    found = forms_within(parse_budget("params=1800"), COSTS, whole)
    assert found == (Form(1, 4, 44),)
