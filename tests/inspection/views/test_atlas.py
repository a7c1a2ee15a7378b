"""The card of a head: its sets in words, its evidence, its place among all heads."""

from __future__ import annotations

from dataclasses import replace

from qt_bert.inspection.studied import Studied
from qt_bert.inspection.views.atlas import card, colourings, what_it_does
from qt_bert.inspection.views.order import head_sets
from qt_bert.inspection.views.words import who_name
from qt_bert.models.heads import Head
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import head_tables
from qt_bert.text import Text
from tests.results.made_heads import matching, redundancy
from tests.results.made_stability import LOOSE

STUDIED = Studied(
    tables=tuple(head_tables([redundancy(), matching()])), origin=Text("某处", "somewhere")
)


def test_the_colours_offered_are_those_measured() -> None:
    assert [one.name for one in colourings(STUDIED)] == ["effect", "kl", "matching"]
    assert [one.figure.name for one in colourings(STUDIED)][0] == "atlas_effect"


def test_a_card_names_the_sets_and_says_what_they_do_once() -> None:
    table = replace(matching(), sets={"matching": ("L0H1",), "matching_below": ("L0H1",)})
    studied = replace(STUDIED, tables=tuple(head_tables([table])))
    found = card(studied, Head(0, 1))
    assert [words.name for words in found.sets] == [
        SETS["matching"].name,
        SETS["matching_below"].name,
    ]
    assert what_it_does(found) == SETS["matching"].does  # both sets do the same


def test_a_set_that_is_not_stable_is_told_so() -> None:
    table = replace(
        matching(),
        sets={"matching": ("L0H1",), "named": ("L0H1",)},
        stability={"matching": LOOSE, "named": replace(LOOSE, verdict="undecided")},
    )
    studied = replace(STUDIED, tables=tuple(head_tables([table])))
    names = [words.name.en for words in card(studied, Head(0, 1)).sets]
    assert names == ["matching heads (not stable)", "named matching heads"]
    shown = head_sets(studied.sets, (), studied.stability)
    assert shown[0].name.zh == "匹配头（不稳定）"
    assert who_name("matching", studied.stability).zh == "匹配头（不稳定）"
    assert who_name("matching").zh == "匹配头"


def test_a_head_of_no_set_is_said_to_be_none() -> None:
    assert "没有一个探针选出它" in what_it_does(card(STUDIED, Head(0, 0))).zh


def test_evidence_has_value_interval_q_and_place() -> None:
    effect, kl, match = card(STUDIED, Head(1, 0)).evidence
    assert (effect.value, effect.q, effect.rank, effect.of) == (5.556, 0.2, 1, 3)
    assert effect.interval is not None and not effect.outlined  # its q is above 0.05
    assert effect.measured.en == "5.6 points [4.6, 6.6], q = 0.2; place 1 of 3"
    assert effect.measured.zh == "5.6 个百分点 [4.6, 6.6]，q = 0.2；第 1 / 3"
    assert (kl.rank, kl.of) == (1, 4)  # all four are equal
    assert (match.rank, match.of, match.outlined) == (2, 4, True)
    assert "72 pairs" in effect.more.en


def test_effects_of_either_sign_are_ranked_by_their_size() -> None:
    assert card(STUDIED, Head(0, 0)).evidence[0].rank == 2
    assert card(STUDIED, Head(0, 1)).evidence[0].rank == 3


def test_a_head_without_a_number_has_no_such_evidence() -> None:
    found = card(STUDIED, Head(1, 1)).evidence
    assert [one.title for one in found] == [one.title for one in colourings(STUDIED)[1:]]


def test_a_score_below_zero_is_shown_with_a_minus() -> None:
    effect = card(STUDIED, Head(0, 0)).evidence[0]
    assert effect.measured.en.startswith("−1.4 points [−2.4, −0.4]")


def test_results_of_one_probe_alone_make_a_card() -> None:
    alone = replace(STUDIED, tables=STUDIED.tables[1:])
    assert len(card(alone, Head(0, 0)).evidence) == 1
