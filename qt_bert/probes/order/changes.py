"""How far a mask moves a quantity, beside the plain model and beside random sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.probes.claims import beyond
from qt_bert.probes.controls import Contest, rank_p
from qt_bert.probes.order.sensitivity import Quantity
from qt_bert.probes.order.study import Study
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

ARTICLE, SECTION = "heads_of_query_title_bert", "2.3"
GRADES = Text("档", "grades")
SHARE = Text("S/R", "S/R")


class Change(NamedTuple):
    """A quantity's change, its resampled values [R], and its rank among the controls' changes."""

    value: float | None
    samples: FloatArray | None
    p: float | None = None


NOTHING = Change(None, None)


def change(study: Study, quantity: Quantity, variants: Sequence[Variant]) -> Change:
    """The mean over `variants`, less the plain model's; those without the quantity are left out."""
    found = study.sensitivity
    rows = study.rows(variants)
    values = found.values(quantity, rows)
    known = [row for row, value in zip(rows, values, strict=True) if np.isfinite(value)]
    plain = found.values(quantity, [0])[0]
    if not known or not np.isfinite(plain):
        return NOTHING
    samples = found.resampled(quantity, known).mean(axis=0) - found.resampled(quantity, [0])[0]
    return Change(float(np.nanmean(values) - plain), samples)


def against(
    study: Study,
    quantity: Quantity,
    one: Contest | None,
    controls: Literal["matched", "free", "loud"],
    *,
    below: bool,
) -> Change:
    """The target's change less the mean of its `controls`, and its rank among them.

    Where no control could be drawn: the target's own change, and no p.
    """
    if one is None:
        return NOTHING
    target = change(study, quantity, [one.target])
    drawn: Sequence[Variant] = getattr(one, controls)
    random = change(study, quantity, drawn) if drawn else NOTHING
    if target.value is None or target.samples is None:
        return NOTHING
    if random.value is None or random.samples is None:
        return target
    plain = study.sensitivity.values(quantity, [0])[0]
    ranks = study.sensitivity.values(quantity, study.rows(drawn)) - plain
    p = rank_p(target.value, ranks, below=below)
    return Change(target.value - random.value, target.samples - random.samples, p)


NO_HEADS = Text("没有可去掉的语序头", "there are no order heads to leave out")


def missing(study: Study) -> Text:
    """Why a quantity is not defined, the plain model's reasons first."""
    texts, found = study.texts, study.sensitivity
    if not texts.count("original"):
        return Text("样本中没有可打乱的高档标题对", "no pair of a high grade can be shuffled here")
    if not texts.count("low"):
        return Text("样本中没有低档的对", "the sample has no pair of the lowest grade")
    if not found.has_intervals:
        return Text("R 没有区间，不知它是否大于 0", "R has no interval that could lie above 0")
    if not found.reaches[0]:
        return Text(
            "模型在这里分不开高档与低档：R 的区间不在 0 之上",
            "the model does not part high from low grades here: the interval of R is not above 0",
        )
    return Text(
        "去掉这些头后，模型分不开高档与低档：R 的区间不在 0 之上",
        "without these heads the model does not part high from low grades: the interval of R is not "
        "above 0",
    )


def finding(
    study: Study,
    id: str,
    claim: Text,
    found: Change,
    *,
    unit: Text,
    below: bool = False,
    said: str | None = None,
    primary: bool = True,
    n_queries: int | None = None,
    conclusions: dict[Verdict, Text] | None = None,
    sets: tuple[str, ...] = (),
    why: Text | None = None,
) -> Finding:
    """A finding of this study, with the article's words beside it where it `said` something.

    A claim without a value says `why`, by default the reason that S, R or S / R is missing.
    """
    if found.value is None:
        why = why or missing(study)
        claim = Text(f"{claim.zh}（没有数值，因为{why.zh}）", f"{claim.en} (no value: {why.en})")
    return beyond(
        id,
        claim,
        Source(article=ARTICLE, section=SECTION, value=said),
        found.value,
        found.samples,
        p=found.p,
        n_queries=study.sensitivity.n_queries if n_queries is None else n_queries,
        side="below" if below else "above",
        unit=unit,
        primary=primary,
        conclusions=conclusions,
        sets=sets,
    )
