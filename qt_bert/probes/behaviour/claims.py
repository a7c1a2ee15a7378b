"""The claims of the behaviour card, fixed beforehand.

Primary, one for each *better* phenomenon of the file: the score (right − wrong) / n over its cases
in the validation half of the queries lies above 0 (margin 0: a model that guesses has 0, and so has
one to which all titles are alike). A case is right where Δ, the expected grade of the better title
less that of the other, exceeds the band, 0.25 of a grade (of one logit the median gap between
neighbours in the model's own rankings), and wrong below minus the band. The interval resamples
queries; p exchanges the two titles of whole queries.

All else is descriptive: the score of *alike* phenomena, how often the better title of all *better*
cases scores higher (aimed at: 0.75, on discovery and on validation), and what leaving chosen heads
out does. A head is chosen for a phenomenon on discovery, with q < 0.05 over all heads and phenomena
and a change of mean Δ by a fifth of the band or more (0.05 grade, `carried.LEAST_OF_BAND`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from qt_bert.models.heads import names_of
from qt_bert.probes.behaviour.cases import BETTER
from qt_bert.probes.behaviour.contests import CARRIES, LeftOut
from qt_bert.probes.behaviour.study import Study
from qt_bert.probes.behaviour.tallies import Tally
from qt_bert.probes.behaviour.words import CONCLUSIONS, SOURCE
from qt_bert.probes.claims import beyond, bootstrap_p
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.results.probe import Finding
from qt_bert.text import Text

AIM = 0.75
"""The share of *better* cases whose better title is to score higher."""


def findings(study: Study) -> Iterator[Finding]:
    """The primary claims first, then what stands beside them."""
    found = study.validation.tallies.values()
    yield from (_better(one) for one in found if one.relation == BETTER)
    yield from _aims(study)
    yield from (_alike(one) for one in found if one.relation != BETTER)
    yield from (_tested(one, study) for one in study.tested)


def _better(tally: Tally) -> Finding:
    name = phenomenon_name(tally.phenomenon)
    return beyond(
        f"behaviour.{tally.phenomenon}",
        Text(
            f"“{name.zh}”：判对的案例多于判错的（得分高于 0）",
            f"{name.en}: more cases are right than wrong (score above 0)",
        ),
        SOURCE,
        tally.score.value,
        tally.score.samples,
        p=tally.score.p,
        n_queries=tally.score.n_queries,
        conclusions=CONCLUSIONS,
    )


def _alike(tally: Tally) -> Finding:
    name = phenomenon_name(tally.phenomenon)
    return beyond(
        f"behaviour.{tally.phenomenon}",
        Text(
            f"“{name.zh}”：两个标题得分相同（差在容差以内）的案例更多",
            f"{name.en}: more cases have both titles alike, within the band, than not",
        ),
        SOURCE,
        tally.score.value,
        tally.score.samples,
        p=tally.score.p,
        n_queries=tally.score.n_queries,
        primary=False,
    )


def _aims(study: Study) -> Iterator[Finding]:
    """None for a file without a `better` case."""
    halves = {
        "discovery": (study.discovery, Text("发现集", "discovery")),
        "validation": (study.validation, Text("验证集", "validation")),
    }
    for half, (own, where) in halves.items():
        if own.higher.n:
            yield beyond(
                f"behaviour.ranked_higher.{half}",
                Text(
                    f"更好的标题得分更高的案例超过 {AIM:.0%}（{where.zh}，不计容差）",
                    f"the better title scores higher in over {AIM:.0%} of the cases ({where.en}, "
                    "whatever the band)",
                ),
                SOURCE,
                own.higher.value,
                own.higher.samples,
                p=bootstrap_p(own.higher.samples, AIM, own.higher.n_queries),
                n_queries=own.higher.n_queries,
                margin=AIM,
                primary=False,
            )


def _tested(tested: LeftOut, study: Study) -> Finding:
    name, heads = phenomenon_name(tested.phenomenon), " ".join(names_of(tested.heads))
    carries, against = tested.way == CARRIES, tested.beyond is not None
    side: Literal["above", "below"] = "below" if carries else "above"
    worse = Text("差", "worse") if carries else Text("好", "better")
    than = Text("比去掉同层其他头时", ", by more than without others of their layers")
    value = tested.change.value - (tested.others or 0.0)
    return beyond(
        f"behaviour.{tested.name}",
        Text(
            f"去掉发现集上选出的 {heads}，“{name.zh}”判得{than.zh if against else ''}更{worse.zh}",
            f"without {heads}, chosen on discovery, the model does {worse.en} on {name.en}"
            f"{than.en if against else ''}",
        ),
        SOURCE,
        value,
        tested.change.samples if tested.beyond is None else tested.beyond,
        p=tested.p,
        n_queries=tested.change.n_queries,
        side=side,
        unit=study.band.unit,
        primary=False,
        sets=(tested.name,),
    )
