import math
from collections import Counter
from collections.abc import Iterable
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.ablation.families import (
    halves,
    layer_matched,
    named_set,
    random_parts,
    random_sets,
    random_shares,
    sublayers,
)
from qt_bert.ablation.interventions import Variant, with_plain
from qt_bert.ablation.masks import zeroed
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape, by_layer, format_heads, parse_heads

SHAPE = Shape(4, 5)
SHAPES = st.builds(Shape, st.integers(1, 7), st.integers(1, 6), st.just(frozenset()))
SEEDS = st.integers(0, 2**40)


def named(variants: Iterable[Variant]) -> dict[str, Variant]:
    return {variant.name: variant for variant in with_plain(list(variants))[1:]}


def curve(variants: Iterable[Variant], family: str, draw: int) -> list[set[Head]]:
    """The sets of one draw, smallest first; those without a draw belong to every curve."""
    sets = [set(v.heads) for v in variants if v.family == family and v.draw in (draw, None)]
    return sorted(sets, key=len)


def test_halves_step_by_a_tenth_of_all_heads():
    result = named(halves(SHAPE, zeroed, draws=3, seed=8))
    sizes = Counter((v.name.split("#")[0], len(v.heads), v.family) for v in result.values())
    steps = {"10%": 2, "20%": 4, "30%": 6, "40%": 8}
    assert sizes == {
        **{(f"{half}:{at}", n, half): 3 for half in ("low", "high") for at, n in steps.items()},
        ("low:50%", 10, "low"): 1,
        ("high:50%", 10, "high"): 1,
    }
    assert (result["low:50%"].draw, result["low:50%"].seed) == (None, None)
    assert (result["low:20%#02"].draw, result["low:20%#02"].seed) == (2, 8)


def test_a_layer_without_heads_has_its_feed_forward_block():
    result = named(sublayers(Shape(2, 1, frozenset({Head(1, 0)})), zeroed))
    assert {name: variant.mode for name, variant in result.items()} == {
        "L0:feed_forward": "feed_forward",
        "L1:feed_forward": "feed_forward",
        "L0:both": "zero+feed_forward",
    }
    assert result["L0:both"].heads == (Head(0, 0),)


def test_of_an_odd_number_of_layers_the_middle_one_is_high():
    result = named(halves(Shape(5, 4), zeroed, draws=1))
    assert list(result) == [
        *("low:10%#00", "low:20%#00", "low:30%#00", "low:40%"),
        *("high:10%#00", "high:20%#00", "high:30%#00", "high:40%#00", "high:50%#00", "high:60%"),
    ]
    assert {head.layer for head in result["low:40%"].heads} == {0, 1}
    assert len(result["high:60%"].heads) == 12


def test_a_half_without_heads_has_no_variants():
    low = frozenset({Head(0, 0), Head(0, 1)})
    assert {v.family for v in halves(Shape(2, 2, low), zeroed, draws=1)} == {"high"}
    assert halves(Shape(2, 1, frozenset({Head(0, 0), Head(1, 0)})), zeroed) == []


@pytest.mark.parametrize(
    ("shape", "share", "size"),
    [
        (Shape(5, 5), 0.1, 3),  # 2.5
        (Shape(5, 10), 0.29, 15),  # 14.5, which floating point puts below
        (Shape(3, 5), 0.3, 5),  # 4.5
        (Shape(12, 12), 0.1, 14),  # 14.4
        (Shape(12, 12), 0.2, 29),  # 28.8
        (Shape(2, 2), 0.1, 0),  # left out
    ],
)
def test_a_share_is_rounded_to_whole_heads_a_half_upwards(shape, share, size):
    result = random_shares(shape, zeroed, draws=1, shares=[share])
    assert [len(variant.heads) for variant in result] == [size] * bool(size)


@given(SHAPES, SEEDS)
def test_the_sets_of_a_draw_are_nested(shape, seed):
    variants = random_shares(shape, zeroed, draws=2, seed=seed)
    if shape.layers > 1:
        variants += halves(shape, zeroed, draws=2, seed=seed)
    for family in {variant.family for variant in variants}:
        for draw in range(2):
            assert all(small <= large for small, large in pairwise(curve(variants, family, draw)))


@given(SHAPES.filter(lambda shape: shape.layers > 1), SEEDS)
def test_a_half_keeps_to_its_layers(shape, seed):
    for variant in halves(shape, zeroed, draws=2, seed=seed):
        low = [head.layer < shape.layers // 2 for head in variant.heads]
        assert all(low) if variant.family == "low" else not any(low)


@given(SEEDS)
def test_more_draws_leave_the_earlier_ones_as_they_were(seed):
    target = parse_heads("L0H1 L0H2 L2H3", SHAPE)
    for family, few, many in (
        (lambda draws: halves(SHAPE, zeroed, draws, seed), 2, 4),
        (lambda draws: random_shares(SHAPE, zeroed, draws, seed), 2, 4),
        (lambda draws: random_sets(SHAPE, zeroed, 5, draws, seed), 2, 4),
        (lambda draws: layer_matched(SHAPE, zeroed, target, draws, seed), 14, 15),
        (lambda draws: layer_matched(SHAPE, zeroed, target[:1], draws, seed), 3, 9),
    ):
        assert named(family(few)).items() <= named(family(many)).items()


def test_seeds_and_draws_are_drawn_apart():
    shape = Shape(8, 8)
    target = [Head(layer, 0) for layer in range(8)]
    for family in (
        lambda seed: random_sets(shape, zeroed, 8, 5, seed),
        lambda seed: layer_matched(shape, zeroed, target, 5, seed),
    ):
        assert len({variant.heads for seed in (0, 1) for variant in family(seed)}) == 10


def test_free_draws_have_k_heads():
    variants = random_sets(SHAPE, zeroed, 7, draws=101, seed=4)
    assert {len(v.heads) for v in variants} == {7}
    assert [v.name for v in variants[:2]] == ["random:k7#00", "random:k7#01"]
    assert variants[-1].name == "random:k7#100"
    assert [v.name for v in random_sets(SHAPE, zeroed, 20)] == ["random:k20"]


@pytest.mark.parametrize(("draws", "seed"), [(0, 0), (-2, 0), (1, -1)])
def test_draws_and_seeds_that_cannot_be_are_refused(draws, seed):
    for family in (halves, random_shares):
        with pytest.raises(ArgumentError, match="at least one draw, and no seed below 0"):
            family(SHAPE, zeroed, draws, seed)
    with pytest.raises(ArgumentError, match="at least one draw, and no seed below 0"):
        layer_matched(SHAPE, zeroed, [Head(0, 0)], draws, seed)


@given(st.data(), SEEDS)
def test_layer_matched_sets_match_and_differ(data, seed):
    shape = data.draw(SHAPES.filter(lambda shape: shape.heads > 1))
    most = shape.heads // 2
    numbers = st.sets(st.integers(0, shape.heads - 1), max_size=most)
    target = [
        Head(layer, number) for layer in range(shape.layers) for number in data.draw(numbers)
    ] or [Head(0, 0)]
    variants = layer_matched(shape, zeroed, target, draws=30, seed=seed)
    expected = {layer: len(heads) for layer, heads in by_layer(target).items()}
    for variant in variants:
        assert {layer: len(heads) for layer, heads in by_layer(variant.heads).items()} == expected
        assert not set(variant.heads) & set(target)
    sets = math.prod(math.comb(shape.heads - size, size) for size in expected.values())
    assert len({variant.heads for variant in variants}) == len(variants) == min(30, sets)


def test_matched_sets_keep_to_the_heads_given():
    live = parse_heads("L0H0 L0H1 L0H3 L0H4", SHAPE)
    variants = layer_matched(SHAPE, zeroed, [Head(0, 0)], 99, 0, within=live, prefix="order:")
    assert {format_heads(v.heads) for v in variants} == {"L0H1", "L0H3", "L0H4"}
    assert variants[0].name == "order:matched:k1#00"


def test_matched_sets_are_drawn_equally():
    target = parse_heads("L0H0 L0H1", SHAPE)
    first = Counter(layer_matched(SHAPE, zeroed, target, 1, seed)[0].heads for seed in range(600))
    assert set(first) == set(combinations([Head(0, 2), Head(0, 3), Head(0, 4)], 2))
    # 200 expected of each, with a standard deviation of 11.5.
    assert max(abs(times - 200) for times in first.values()) < 60


def test_a_layer_without_enough_heads_outside_is_refused():
    with pytest.raises(ArgumentError, match=r"3 heads of layer 2, and 2 remain .* outside it"):
        layer_matched(SHAPE, zeroed, parse_heads("L0H0 L2H0 L2H1 L2H2", SHAPE))


@pytest.mark.parametrize("target", [[], [Head(4, 0)]])
def test_what_the_model_lacks_is_refused(target):
    with pytest.raises(ArgumentError, match="one layer has no lower and upper half"):
        halves(Shape(1, 8), zeroed)
    with pytest.raises(ArgumentError, match="there is no head L9H1"):
        named_set(SHAPE, zeroed, "L2H1 L9H1")
    with pytest.raises(ArgumentError, match="a set of heads to match|no head L4H0"):
        layer_matched(SHAPE, zeroed, target)


def test_a_set_from_the_command_line():
    (variant,) = named_set(SHAPE, zeroed, "L3H2, L2H1  L3H2")
    assert (variant.name, variant.family) == ("L2H1+L3H2", "set")
    assert format_heads(variant.heads) == "L2H1 L3H2"


def test_each_random_order_is_cut_in_parts_that_hold_every_head_once():
    shape = Shape(3, 4)
    parts = random_parts(shape, zeroed, 5, 8)
    assert len(parts) == 40 and len({variant.name for variant in parts}) == 40
    for draw in range(8):
        sets = [variant.heads for variant in parts if variant.draw == draw]
        assert sorted(map(len, sets)) == [2, 2, 2, 3, 3]
        assert sorted(head for heads in sets for head in heads) == list(shape.all_heads)
    assert len({variant.heads for variant in parts}) > 30
    assert random_parts(shape, zeroed, 5, 3) == parts[:15]
    assert len(random_parts(Shape(1, 3), zeroed, 5, 2)) == 6
