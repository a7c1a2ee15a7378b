"""The heads of a model that nobody studied: scored here, on few pairs, by the probes' own functions.

Nothing is tested: heads are put in order and the best are named, without intervals or q.
"""

from __future__ import annotations

from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.sampled.parts import Parts
from qt_bert.inspection.sampled.sample import Sample
from qt_bert.inspection.sampled.scores import boundary, effects, focus, matching, order, shift
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.turns import Job
from qt_bert.progress import Progress, silent
from qt_bert.results import Text

SHARES = {"matching": 35, "order": 10, "boundary": 10, "shift": 10, "redundancy": 30, "focus": 5}
"""What is computed, by its probe, and its share of the progress."""
TOTAL = sum(SHARES.values())


def study_here(
    inspected: Inspected, job: Job, shown: Progress = silent, *, base: Inspected | None = None
) -> Studied:
    """Score every head on 64 + 64 of the pairs that ship, in slices of `job`.

    `shown` counts up to `TOTAL`, with the name of the probe as its note. `base`, the model before
    fine-tuning, adds what tuning changed. A model without grades has no effects. Raises Stopped.
    """
    sample = Sample(inspected, Parts(job, shown, SHARES))
    inspected.segmenter.spans("词")  # its dictionary is read here, not within a slice
    by_terms, below = matching(sample)
    tables = [by_terms, order(sample), boundary(sample)]
    if base is not None and base.shape == inspected.shape:
        tables.append(shift(sample, base))
    sets = {"matching_below": tuple(below)}
    if inspected.classifies:
        table, sets["reader"] = effects(sample)
        tables.append(table)
    tables.append(focus(sample, sets))
    pairs = len(sample.pairs)
    return Studied(
        tables=tuple(sorted(tables, key=lambda table: table.order)),
        origin=Text(
            f"在这里用自带的 {pairs} 对算出，未经检验",
            f"computed here on {pairs} pairs that ship, untested",
        ),
        tested=False,
    )
