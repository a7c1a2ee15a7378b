"""Budgets as they are written, and the shapes that meet them."""

from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.pruned import parameter_count, reference_of
from qt_bert.planning.budgets import (
    Costs,
    Form,
    count_kept,
    form_of,
    forms_within,
    parameter_costs,
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
    asked = text.strip()
    assert parse_budget(text) == Budget(kind_of=kind, value=value, share=share, asked=asked)


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_cannot_be_meant_is_refused_with_what_can(text, said):
    with pytest.raises(ArgumentError, match="--budget") as error:
        parse_budget(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "total", "kept"),
    [("heads=0.6", 144, 86), ("heads=86", 144, 86), ("layers=0.5", 12, 6), ("layers=1", 2, 1)],
)
def test_counts(text, total, kept):
    assert count_kept(parse_budget(text), total) == kept


@pytest.mark.parametrize(
    ("text", "total", "said"),
    [
        ("heads=144", 144, "keeps all of the model's 144 heads; give heads=1 to heads=143"),
        ("heads=200", 144, "keeps 200 of the model's 144 heads"),
        ("heads=0.001", 144, "keeps none of the model's 144 heads"),
        ("layers=0.9", 2, "or a share from 0.26 to 0.74"),
        ("layers=0.5", 1, "a single layer"),
    ],
)
def test_a_number_out_of_range_gets_the_range(text, total, said):
    with pytest.raises(ArgumentError) as error:
        count_kept(parse_budget(text), total)
    assert said in str(error.value)


def test_heads_that_share_a_key_are_counted_together():
    for text, kept in (("heads=0.6", 10), ("heads=12", 12), ("heads=0.9", 14), ("heads=2", 2)):
        assert count_kept(parse_budget(text), 16, 2) == kept
    for text, said in (
        (
            "heads=5",
            "each 2 heads of the model share one key and value and go together; give heads=4",
        ),
        (
            "heads=1",
            "keeps 1 of the model's 16 heads; give heads=2 to heads=14, or a share from 0.07",
        ),
        ("heads=0.05", "keeps none of the model's 16 heads"),
    ):
        with pytest.raises(ArgumentError, match=said):
            count_kept(parse_budget(text), 16, 2)
    with pytest.raises(ArgumentError, match="a single group of heads, which cannot go"):
        count_kept(parse_budget("heads=0.5"), 4, 4)


@pytest.mark.parametrize("total", [2, 4, 12, 24, 144, 384])
def test_the_shares_that_are_named_work(total):
    with pytest.raises(ArgumentError) as error:
        count_kept(parse_budget(f"heads={total}"), total)
    for share in str(error.value).split("a share from ")[1].split(" to "):
        assert 1 <= count_kept(parse_budget(f"heads={share}"), total) < total


# Shapes within a budget: the largest ones, whole layers first.


FORM = Form(layers=4, heads=16, units=64)
# 1,000 for a layer: 200 + 4 × 40 + 64 × 10.
COSTS = Costs(fixed=1000, layer=200, head=40, unit=10)


def forms(text):
    return forms_within(parse_budget(text), COSTS, FORM)


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
    assert forms_within(parse_budget("params=1300"), costs, FORM)[-1] == Form(3, 12, 32)
    assert forms_within(parse_budget("params=1000"), costs, FORM)[-1] == Form(3, 9, 16)
    shared = replace(FORM, sharing=2)
    assert forms_within(parse_budget("params=1000"), costs, shared)[-1] == Form(3, 8, 16, 2)
    heads = [
        one.heads
        for one in Form(3, 8, 16, 2).example(
            TeacherRef(name="t", sha256="0", layers=8, heads=4, units=64)
        )
    ]
    assert heads == [(0, 1, 2, 3), (0, 1), (0, 1)]


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


# What shapes cost, against models that were really made so.


def reference(checkpoint):
    """The model's shape, and its own form."""
    one = reference_of(checkpoint.model, checkpoint.family, "t", "0")
    return one, Form(one.layers, one.layers * one.heads, one.units)


@pytest.mark.parametrize("family", (*LEARNED, "gte", "deberta-v2"))
@pytest.mark.parametrize("form", [Form(3, 6, 32), Form(2, 4, 32), Form(2, 3, 7), Form(1, 0, 1)])
def test_parameters_are_those_of_the_pruned_model(checkpoint_of, family, form):
    own = {"num_key_value_heads": 2} if "qwen" in family else {}
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3, **own))
    teacher, whole = reference(checkpoint)
    assert whole == Form(3, 6, 32)
    kept = form.example(teacher)
    assert form_of(kept, teacher) == form
    units = {one.layer: range(one.units) for one in kept if one.units is not None}
    small = smaller_checkpoint(checkpoint, kept, units=units)
    costs = parameter_costs(checkpoint.model, checkpoint.family)
    norm = 16 if family == "modernbert" else 0  # a norm that its lowest layer does not have
    assert costs.of(form) == pytest.approx(parameter_count(small.model), rel=0, abs=norm)
    assert costs.of(whole) == checkpoint.parameters


@pytest.mark.parametrize("heads", [8, 6, 2, 0])
def test_parameters_of_heads_that_share_keys(checkpoint_of, heads):
    shape = {"layers": 3, "heads": 4, "num_key_value_heads": 2}
    checkpoint = open_checkpoint(checkpoint_of("qwen3", **shape))
    teacher, whole = reference(checkpoint)
    form = replace(whole, heads=heads, sharing=2)
    small = smaller_checkpoint(checkpoint, form.example(teacher))
    found = parameter_costs(checkpoint.model, checkpoint.family).of(form)
    assert found == parameter_count(small.model)
