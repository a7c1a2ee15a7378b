"""Functions at risk, and the plan's figures."""

from qt_bert.heads import Head
from qt_bert.planning.make_plan import at_risk, kept_heads_map, lost_by_function
from qt_bert.planning.prune import kept_by, lost_heads, names_of_removal, removal_of, removed_from
from qt_bert.planning.task import Functions
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import MetricChange

TEACHER = TeacherRef(name="t", sha256="0", layers=3, heads=2, units=8)


def test_functions_at_risk_are_those_whose_heads_go():
    functions = Functions(
        "run", {"matching": ("L0H0", "L1H1"), "order": ("L2H0",), "reader": ("L1H0",)}
    )
    lost = lost_by_function(functions, removal_of([Head(0, 0)], [2]), TEACHER)
    assert lost == {"matching": ("L0H0",), "order": ("L2H0",), "reader": ()}
    change = MetricChange(base=0.8, value=0.6, change=-0.2, ci_low=-0.2, ci_high=-0.2)
    measured = {removal_of([Head(0, 0)]): {"spearman": change}, removal_of([Head(2, 0)]): {}}
    rows = at_risk(functions, lost, measured)
    assert [row.name for row in rows] == ["matching", "order", "reader"]
    assert rows[0].measured == change and rows[1].measured is None is rows[2].measured


def test_heads_of_layers_that_go_are_gone_with_them():
    removal = removal_of([Head(1, 1), Head(0, 0), Head(1, 1), Head(2, 0)], [2])
    assert removal.heads == (Head(0, 0), Head(1, 1)) and removal.blocks == (2,)
    assert names_of_removal(removal) == ("L2", "L0H0", "L1H1")
    assert lost_heads(removal, TEACHER) == {"L0H0", "L1H1", "L2H0", "L2H1"}


def test_what_stays_and_back():
    removal = removal_of([Head(0, 0), Head(0, 1)], [1])
    kept = kept_by(removal, TEACHER)
    assert kept == (KeptLayer(layer=0, heads=()), KeptLayer(layer=2, heads=(0, 1)))
    assert removed_from(kept, TEACHER) == removal


def test_heads_that_go_are_blank_and_functions_have_letters():
    teacher = TeacherRef(name="t", sha256="0", layers=2, heads=3, units=8)
    effects = {Head(layer, head): 0.001 * head for layer in range(2) for head in range(3)}
    functions = Functions("run", {"matching": ("L0H1", "L1H2"), "reader": ("L1H2",)})
    drawn = kept_heads_map(teacher, removal_of([Head(0, 1)], [1]), effects, functions)
    assert drawn.values == ((0.0, None, 2.0), (None, None, None))
    assert drawn.annotations == (("", "M", ""), ("", "", "MR"))
    assert drawn.marked == ((0, 1), (1, 2))
    assert "M matching, R reader" in drawn.note.en
