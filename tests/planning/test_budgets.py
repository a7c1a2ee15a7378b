"""Budgets as they are written, and the shapes that meet them."""

from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.pruned import parameter_count, reference_of
from qt_bert.planning import budgets
from qt_bert.planning.budgets import (
    Costs,
    Form,
    forms_within,
    parse_budget,
)
from qt_bert.results.kept import TeacherRef
from qt_bert.results.plan import Budget
from tests.conftest import LEARNED


@pytest.mark.parametrize(
    ("text", "kind", "value", "share"),
    [
        ("heads=0.6", "heads", 0.6, True),
        ("heads=86", "heads", 86, False),
        ("layers=6", "layers", 6, False),
        ("layers=.5", "layers", 0.5, True),
        ("latency=0.5", "latency", 0.5, True),
        ("params=4000000", "params", 4_000_000, False),
        ("params=0.55", "params", 0.55, True),
        ("params=4M", "params", 4_000_000, False),
        ("params=4.5M", "params", 4_500_000, False),
        (" Heads=1 ", "heads", 1, False),
    ],
)
def test_a_point_makes_a_share(text, kind, value, share):
    budget = Budget(kind_of=kind, value=value, share=share, asked=text.strip())
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head=0.6", "heads=, layers=, latency= or params="),
        ("heads", "heads="),
        ("heads=60%", "the share that is kept"),
        ("heads=-3", "heads="),
        ("heads=1e3", "heads="),
        ("heads=1.0", "above 0 and below 1"),
        ("heads=1.5", "above 0 and below 1"),
        ("layers=0.0", "above 0 and below 1"),
        ("latency=2", "latency=0.5"),
        ("heads=2M", "params alone"),
        ("layers=0", "nothing is left"),
        ("", "heads="),
    ],
)
def test_an_invalid_budget_is_refused_with_what_is_valid(text, message):
    with pytest.raises(ArgumentError, match="--budget") as error:
        parse_budget(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "total", "sharing", "kept"),
    [
        ("heads=0.6", 144, 1, 86),
        ("heads=86", 144, 1, 86),
        ("layers=0.5", 12, 1, 6),
        ("layers=1", 2, 1, 1),
        ("heads=0.6", 16, 2, 10),
        ("heads=12", 16, 2, 12),
        ("heads=0.9", 16, 2, 14),
        ("heads=2", 16, 2, 2),
    ],
)
def test_counts(text, total, sharing, kept):
    assert budgets.count_kept(parse_budget(text), total, sharing) == kept


@pytest.mark.parametrize(
    ("text", "total", "sharing", "message"),
    [
        ("heads=144", 144, 1, "keeps all of the model's 144 heads; give heads=1 to heads=143"),
        ("heads=200", 144, 1, "keeps 200 of the model's 144 heads"),
        ("heads=0.001", 144, 1, "keeps none of the model's 144 heads"),
        ("layers=0.9", 2, 1, "or a share from 0.26 to 0.74"),
        ("layers=0.5", 1, 1, "a single layer"),
        ("heads=5", 16, 2, "each 2 heads .* share one key and value .*; give heads=4"),
        ("heads=1", 16, 2, "keeps 1 of .* 16 heads; give heads=2 to heads=14, .* from 0.07"),
        ("heads=0.05", 16, 2, "keeps none of the model's 16 heads"),
        ("heads=0.5", 4, 4, "a single group of heads, which cannot go"),
    ],
)
def test_a_number_out_of_range_gets_the_range(text, total, sharing, message):
    with pytest.raises(ArgumentError, match=message):
        budgets.count_kept(parse_budget(text), total, sharing)


@pytest.mark.parametrize("total", [2, 4, 12, 24, 144, 384])
def test_the_shares_that_are_named_work(total):
    with pytest.raises(ArgumentError) as error:
        budgets.count_kept(parse_budget(f"heads={total}"), total)
    for share in str(error.value).split("a share from ")[1].split(" to "):
        assert 1 <= budgets.count_kept(parse_budget(f"heads={share}"), total) < total


# Shapes within a budget: the largest ones, whole layers first.


FORM = Form(layers=4, heads=16, units=64)
# 1,000 for a layer: 200 + 4 × 40 + 64 × 10.
COSTS = Costs(fixed=1000, layer=200, head=40, unit=10)


def forms(text):
    return forms_within(parse_budget(text), COSTS, FORM)


def test_as_few_whole_layers_go_as_meet_it_or_units_of_one_layer_more():
    assert forms("params=3999")[0] == Form(2, 8, 64)
    # Three layers with u units cost 1,000 + 3 × (360 + 10 u): 3,000 at u = 30; steps of two.
    assert forms("params=3000") == (Form(2, 8, 64), Form(3, 12, 30))
    assert COSTS.of(Form(3, 12, 30)) <= 3000 < COSTS.of(Form(3, 12, 32))


def test_then_heads_go_where_units_are_not_enough():
    # Four layers at 16 units: 1,000 + 4 × 360 + 40 × heads.
    assert forms("params=4000") == (Form(3, 12, 64), Form(4, 16, 38))
    whole, narrow = forms("params=2600")
    assert (whole, narrow.layers) == (Form(1, 4, 64), 2)
    costs = Costs(fixed=0, layer=0, head=100, unit=1)
    assert forms_within(parse_budget("params=1300"), costs, FORM)[-1] == Form(3, 12, 32)
    assert forms_within(parse_budget("params=1000"), costs, FORM)[-1] == Form(3, 9, 16)
    shared = replace(FORM, sharing=2)
    assert forms_within(parse_budget("params=1000"), costs, shared)[-1] == Form(3, 8, 16, 2)
    teacher = TeacherRef(name="t", sha256="0", layers=8, heads=4, units=64)
    layers = Form(3, 8, 16, 2).example(teacher)
    assert [layer.heads for layer in layers] == [(0, 1, 2, 3), (0, 1), (0, 1)]


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
    narrow = forms_within(parse_budget("params=1800"), COSTS, Form(1, 4, 64))
    assert narrow == (Form(1, 4, 44),)


# What shapes cost, against models that were really made so.


FORMS = [Form(3, 6, 32), Form(2, 4, 32), Form(2, 3, 7), Form(1, 0, 1)]
CASES = [(family, 2, form) for family in (*LEARNED, "gte", "deberta-v2") for form in FORMS]
CASES += [("qwen3", 4, Form(3, heads, 32, sharing=2)) for heads in (8, 6, 2, 0)]


@pytest.mark.parametrize(("family", "heads", "form"), CASES)
def test_parameters_are_those_of_the_pruned_model(checkpoint_of, family, heads, form):
    """Also of heads that share keys."""
    shape = {"num_key_value_heads": 2} if family == "qwen3" else {}
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3, heads=heads, **shape))
    teacher = reference_of(checkpoint.model, checkpoint.family, "t", "0")
    assert (teacher.layers, teacher.heads, teacher.units) == (3, heads, 32)
    kept = form.example(teacher)
    assert budgets.form_of(kept, teacher) == replace(form, sharing=1)
    units = {layer.layer: range(layer.units) for layer in kept if layer.units is not None}
    small = smaller_checkpoint(checkpoint, kept, units=units)
    costs = budgets.parameter_costs(checkpoint.model, checkpoint.family)
    assert costs.of(form) == parameter_count(small.model)
    assert costs.of(Form(3, 3 * heads, 32, form.sharing)) == checkpoint.parameters
