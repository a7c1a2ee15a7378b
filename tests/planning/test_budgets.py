"""Budgets as they are written, and the numbers that they keep."""

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning import budgets
from qt_bert.planning.budgets import parse_budget
from qt_bert.results.plan import Budget


@pytest.mark.parametrize(
    ("text", "kind", "value", "share"),
    [
        ("heads=0.6", "heads", 0.6, True),
        ("heads=86", "heads", 86, False),
        ("layers=6", "layers", 6, False),
        ("layers=.5", "layers", 0.5, True),
        (" Heads=1 ", "heads", 1, False),
    ],
)
def test_a_point_makes_a_share(text, kind, value, share):
    budget = Budget(kind_of=kind, value=value, share=share, asked=text.strip())
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency=0.5", "heads= or layers="),
        ("heads=60%", "the share that is kept"),
        ("heads=1e3", "heads="),
        ("heads=1.0", "above 0 and below 1"),
        ("heads=1.5", "above 0 and below 1"),
        ("layers=0.0", "above 0 and below 1"),
        ("layers=0", "nothing is left"),
        (f"heads={'9' * 400}", "heads= or layers="),
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
