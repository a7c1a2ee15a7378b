"""Budgets as they are written."""

from __future__ import annotations

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.planning.shapes import count_kept, parse_budget
from qt_bert.results.plan import Budget


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
        ("layers=0", "something must stay"),
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


@pytest.mark.parametrize("total", [2, 4, 12, 24, 144, 384])
def test_the_shares_that_are_named_work(total):
    with pytest.raises(ArgumentError) as error:
        count_kept(parse_budget(f"heads={total}"), total)
    for share in str(error.value).split("a share from ")[1].split(" to "):
        assert 1 <= count_kept(parse_budget(f"heads={share}"), total) < total
