from dataclasses import replace

from qt_bert.heads import Head
from qt_bert.report.blocks import Interval, Table
from qt_bert.report.probes import atlas_section, probe_section
from qt_bert.results.head_sets import set_words
from qt_bert.results.heads import marked, table_of
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.results.quantities import QUANTITIES


def matching(result_of) -> ProbeResult:
    heads = tuple(
        HeadScores(head=f"L{layer}H{head}", scores={"score": 1.0 + layer + head, "q": 0.01})
        for layer in range(2)
        for head in range(3)
    )
    sets = {"matching": ("L1H2", "L0H1"), "low_half": ("L0H1",)}
    return result_of("matching", 20, heads=heads, sets=sets)


def redundancy(result_of) -> ProbeResult:
    scores = {"change": -0.25, "ci_low": -0.4, "ci_high": -0.1, "q": 0.01, "kl": 0.5}
    heads = (
        HeadScores(head="L0H1", scores=scores),
        HeadScores(head="L1H2", scores={"change": None}),
    )
    return result_of("redundancy", 10, heads=heads, sets={"harmful": ()})


def test_each_named_head_has_one_row(result_of):
    section = atlas_section([redundancy(result_of), matching(result_of)])
    tables = {block.name: block for block in section.blocks if isinstance(block, Table)}
    table = tables["atlas_heads"]
    assert [row[0] for row in table.rows] == ["L0H1", "L1H2"]
    names = [column.name for column in table.columns]
    first, second = (dict(zip(names, row, strict=True)) for row in table.rows)
    assert first["does"] == set_words("matching").does == set_words("low_half").does
    effects = [first["effect"], second["effect"]]
    assert all(isinstance(effect, Interval) for effect in effects)
    assert (effects[0].value, effects[0].low, effects[0].high) == (25.0, 10.0, 40.0)
    assert effects[1].value is None


def test_scores_of_heads_are_named_as_the_shares_that_they_are(result_of):
    *_, details = probe_section(redundancy(result_of)).blocks
    (heads,) = [block for block in details.blocks if block.name == "redundancy_heads"]
    titles = {column.name: getattr(column.title, "en", "") for column in heads.columns}
    assert titles["change"] == "Loss without this head (1 = −100 %)"
    assert "100" not in titles["kl"]


def test_a_head_that_fails_on_validation_is_not_shown(result_of):
    result = matching(result_of)
    heads = tuple(replace(row, shown=row.head == "L0H1") for row in result.heads)
    table = table_of(replace(result, heads=heads))
    assert table.sets["matching"] == ("L1H2", "L0H1")
    assert table.shown_sets == {"matching": ("L0H1",), "low_half": ("L0H1",)}
    (quantity,) = [each for each in QUANTITIES if each.name == "matching"]
    assert marked(quantity, table) == {Head(0, 1)}


def test_probes_without_such_scores_give_no_atlas(result_of):
    assert atlas_section([result_of("other", 10)]) is None
