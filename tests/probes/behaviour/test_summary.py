"""What the summary says of heads: none chosen, chosen and tested, chosen where nothing can be tested."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from qt_bert.probes.behaviour.bands import GRADE, Band
from qt_bert.probes.behaviour.contests import CARRIES, HINDERS
from qt_bert.probes.behaviour.summary import summary
from qt_bert.text import Text

NOTHING = SimpleNamespace(tallies={}, higher=SimpleNamespace(n=0))


def told(chosen: list[str], tested: list[tuple[str, str, bool]]) -> Text:
    """`chosen` phenomena, and those `tested` with their way and whether their heads matter."""
    carried = SimpleNamespace(
        phenomena=("negation", "number", "synonym"),
        least=0.05,
        chosen=lambda name, helps: [1] if helps and name in chosen else [],
    )
    study: Any = SimpleNamespace(
        validation=NOTHING,
        discovery=NOTHING,
        carried=carried,
        band=Band(0.25, GRADE),
        tested=[SimpleNamespace(phenomenon=p, way=way, matters=m) for p, way, m in tested],
    )
    return summary(study, full=True)


def test_no_head_is_chosen_however_many_hinder() -> None:
    said = told([], [("negation", HINDERS, True)])
    assert said.en.startswith("No head makes any behaviour significantly worse by 0.05 grade")
    assert "显著变差 0.05 档以上" in said.zh


def test_chosen_heads_that_matter_are_named() -> None:
    said = told(["negation", "synonym"], [("negation", CARRIES, True), ("synonym", CARRIES, False)])
    assert said.en == (
        "Heads that carry it are found for 2 phenomena; on validation they matter more than others "
        "of their layers in 1 of them (95 % interval): negation or opposite."
    )


@pytest.mark.parametrize(
    ("tested", "expected"),
    [
        ([], "for 1 phenomenon, 0 of them with cases of validation; "),
        ([("number", CARRIES, True)], "for 1 phenomenon; "),
    ],
)
def test_a_phenomenon_without_a_case_of_validation_has_its_heads_all_the_same(
    tested: list[tuple[str, str, bool]], expected: str
) -> None:
    assert expected in told(["number"], tested).en
