"""The head atlas: sets in words, maps of every quantity, every named head."""

from __future__ import annotations

from collections.abc import Callable

from qt_bert.report.blocks import Interval, Section, Table
from qt_bert.report.probes import atlas_section
from qt_bert.results.head_sets import set_words
from qt_bert.results.probe import HeadScores, ProbeResult

Result = Callable[..., ProbeResult]


def matching(result_of: Result) -> ProbeResult:
    heads = tuple(
        HeadScores(head=f"L{layer}H{head}", scores={"score": 1.0 + layer + head, "q": 0.01})
        for layer in range(2)
        for head in range(3)
    )
    sets = {"matching": ("L1H2", "L0H1"), "low_half": ("L0H1",)}
    return result_of("matching", 20, heads=heads, sets=sets)


def redundancy(result_of: Result) -> ProbeResult:
    scores = {"change": -0.25, "ci_low": -0.4, "ci_high": -0.1, "q": 0.01, "kl": 0.5}
    heads = (
        HeadScores(head="L0H1", scores=scores),
        HeadScores(head="L1H2", scores={"change": None}),
    )
    return result_of("redundancy", 10, heads=heads, sets={"harmful": ()})


def tables(section: Section | None) -> dict[str, Table]:
    assert section is not None
    return {block.name: block for block in section.blocks if isinstance(block, Table)}


def test_a_named_head_says_what_it_does_once(result_of):
    table = tables(atlas_section([redundancy(result_of), matching(result_of)]))["atlas_heads"]
    names = [column.name for column in table.columns]
    assert [row[0] for row in table.rows] == ["L0H1", "L1H2"]
    first = dict(zip(names, table.rows[0], strict=True))
    assert first["does"] == set_words("matching").does == set_words("low_half").does
    effect = first["effect"]
    assert isinstance(effect, Interval)
    assert (effect.value, effect.low, effect.high) == (-25.0, -40.0, -10.0)
    missing = dict(zip(names, table.rows[1], strict=True))["effect"]
    assert isinstance(missing, Interval) and missing.value is None


def test_probes_without_such_scores_give_no_atlas(result_of):
    assert atlas_section([result_of("other", 10)]) is None
