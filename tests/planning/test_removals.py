"""What goes and what stays say the same."""

from __future__ import annotations

from qt_bert.models.heads import Head
from qt_bert.planning.prune import kept_by, lost_heads, names_of_removal, removal_of, removed_from
from qt_bert.results.kept import KeptLayer, TeacherRef

TEACHER = TeacherRef(name="t", sha256="0", layers=3, heads=2, units=8)


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


def test_all_units_are_none():
    assert {one.units for one in kept_by(removal_of(), TEACHER, 8)} == {None}
    assert {one.units for one in kept_by(removal_of(), TEACHER, 5)} == {5}
