"""What the survey says of encoding and using, fixed beforehand.

Rogers et al. 2020 (`primer_in_bertology`): a model encodes many properties of language, and need not
use them. Two kinds of claims, both over all places r0 … rn that the profile looks at:

- *Some property is encoded and not used*: it is read better than its control, and erasing it
  changes Spearman's ρ of the expected grade by no more than ± 0.02 beyond either control. There is one
  such property if any of m passes both at a confidence of 1 − 0.05/m (Bonferroni), so the interval
  shown, of the property that comes nearest, is at that level.
- *A property is used*: erasing it moves the grades further than either control does, by a KL of
  more than 0.0008 nats: by Pinsker's inequality a smaller one moves no probability by more than two
  points. (One logit: by more than 0.02 of 1 − ρ.) Each property is a claim of its own; p, of a shift
  beyond the margin, is the larger of the two.

A quick run has too few pairs and draws for a verdict: its findings stand beside the claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qt_bert.probes.claims import beyond, bootstrap_p, no_effect
from qt_bert.probes.naming import Estimate, rank_correlation
from qt_bert.probes.usage.study import CEILING, Study
from qt_bert.probes.usage.unused import Unused, unused
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.multiplicity import NO_EFFECT_ACCURACY, NO_EFFECT_SPEARMAN
from qt_bert.text import Label, Text

SOURCE = Source(
    article="primer_in_bertology",
    section="核心贡献",
    value=Text("含有，但不一定使用", "encoded, not necessarily used"),
)
RHO = "ρ"
LEAST_KL = 2 * NO_EFFECT_ACCURACY**2
LEAST_POINTS = 3


def findings(study: Study, *, primary: bool) -> list[Finding]:
    """Both claims, then what stands beside them."""
    found = [_unused(study, primary), *_used(study, primary), *_ceiling(study)]
    return [*found, *_together(study)]


def unit(study: Study) -> Label:
    """In what a shift of the grades is measured."""
    return Text("奈特", "nats") if study.changes.metrics.moved == "kl" else "1 − ρ"


def _unused(study: Study, primary: bool) -> Finding:
    found = unused(study)
    return no_effect(
        "usage_encoded_not_used",
        Text(
            "至少有一种性质读得出来，但抹去它，期望等级的 ρ 与对照相比几乎不变",
            "At least one property can be read, yet erasing it hardly changes the ρ of the expected "
            "grade beyond its controls",
        ),
        SOURCE,
        None if found is None else found.change.found.value,
        None if found is None else (found.change.low, found.change.high),
        n_queries=study.changes.n_queries,
        margin=NO_EFFECT_SPEARMAN,
        unit=RHO,
        primary=primary,
        conclusions=_unused_conclusions(found),
    )


def _unused_conclusions(found: Unused | None) -> dict[Verdict, Text]:
    none = Text(
        "没有一种性质同时满足：读得比对照好、抹得干净、ρ 有定义。",
        "No property is read better than its control, erased well, and has a ρ to judge by.",
    )
    if found is None:
        return {"inconclusive": none}
    title = found.about.task.about.title
    return {
        "reproduced": Text(
            f"含有不等于使用：“{title.zh}”读得出来，打分却不靠它。",
            f"Encoded is not used: {title.en} can be read, and the grades do not rest on it.",
        ),
        "not reproduced": Text(
            "凡读得出来的性质，抹去后都有影响。",
            "Whatever can be read makes a difference when it is erased.",
        ),
        "inconclusive": Text(
            f"最接近的是“{title.zh}”，但区间还超出 ± {NO_EFFECT_SPEARMAN:g}。",
            f"{title.en.capitalize()} comes nearest, but its interval reaches beyond ± "
            f"{NO_EFFECT_SPEARMAN:g}.",
        ),
    }


def _used(study: Study, primary: bool) -> Iterator[Finding]:
    for one in study.tested:
        title, n = one.task.about.title, study.changes.n_queries
        found = study.mean_used(one.name)
        yield beyond(
            f"usage_used_{one.name}",
            Text(
                f"抹去“{title.zh}”，打分的变化大于两种对照",
                f"Erasing {title.en} moves the grades further than either control",
            ),
            SOURCE,
            None if found is None else found.value,
            None if found is None else found.samples,
            p=_larger_p(study, one.name),
            n_queries=n,
            margin=margin(study),
            unit=unit(study),
            primary=primary,
            conclusions={
                "reproduced": Text(
                    f"打分用到了“{title.zh}”。", f"The grades rest on {title.en}, too."
                ),
                "not reproduced": Text(
                    f"抹去“{title.zh}”并不比抹去别的方向更要紧。",
                    f"Erasing {title.en} matters no more than erasing other directions.",
                ),
                "inconclusive": Text(
                    f"这个样本分不出“{title.zh}”是否用到。",
                    f"This sample cannot tell whether {title.en} is used.",
                ),
            },
        )


def margin(study: Study) -> float:
    """What a shift must exceed to count, in `unit`."""
    return LEAST_KL if study.changes.metrics.moved == "kl" else NO_EFFECT_SPEARMAN


def _larger_p(study: Study, name: str) -> float | None:
    n = study.changes.n_queries
    found = [
        bootstrap_p(study.mean_moved(name, control).samples, margin(study), n)
        for control in study.everywhere(name)
    ]
    known = [p for p in found if p is not None]
    return max(known) if known and len(known) == len(found) else None


def _ceiling(study: Study) -> Iterator[Finding]:
    for one in study.encoded:
        if one.name == CEILING:
            found = study.mean_moved(CEILING)
            yield beyond(
                "usage_ceiling",
                Text(
                    "抹去线性可读的档位本身，打分变化多少（只作参照，无对照）",
                    "How far the grades move where the grade itself, as far as it can be read by a "
                    "line, is erased (for comparison, without controls)",
                ),
                SOURCE,
                found.value,
                found.samples,
                p=None,
                n_queries=study.changes.n_queries,
                unit=unit(study),
                primary=False,
            )


def _together(study: Study) -> Iterator[Finding]:
    """Whether what is read better is used more, over all points of the map."""
    points = [(one.name, place) for one in study.tested for place in study.places]
    if len(points) < LEAST_POINTS:
        return
    read = [study.decodable[point] for point in points]
    used = [study.used(*point) for point in points]
    value, samples = _rank_correlations(read, used)
    yield beyond(
        "usage_map_correlation",
        Text(
            "读得越清楚，用得就越多：两者在性质与层之间的等级相关",
            "What is read better is used more: the rank correlation of both over properties and "
            "layers",
        ),
        SOURCE,
        value,
        samples,
        p=None,
        n_queries=study.changes.n_queries,
        unit=RHO,
        primary=False,
    )


def _rank_correlations(
    one: Sequence[Estimate], other: Sequence[Estimate]
) -> tuple[float, FloatArray]:
    """Spearman's ρ of two lists of estimates: of their values, and of their resamples [R]."""
    value = rank_correlation(*(np.array([[each.value] for each in both]) for both in (one, other)))
    drawn = [np.array([each.samples for each in both]) for both in (one, other)]
    count = min(each.shape[1] for each in drawn)
    return float(value[0]), rank_correlation(*(each[:, :count] for each in drawn))
