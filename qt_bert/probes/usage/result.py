"""The study of encoded against used as a probe's result."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.split import reference
from qt_bert.probes.usage.claims import findings
from qt_bert.probes.usage.figures import figures
from qt_bert.probes.usage.study import Study
from qt_bert.probes.usage.summary import summary
from qt_bert.probes.usage.unused import unused
from qt_bert.results.probe import ProbeResult
from qt_bert.stats.intervals import percentile_interval


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, settings and figures; the probe names no heads."""
    context.guards["nothing_left_to_read"] = {
        f"{one.name}@r{place}": {
            "score": round(float(score), 6),
            "majority": round(float(one.decoded.majority.score()[0]), 6),
            "holds": study.holds[one.name, place],
        }
        for one in study.encoded
        for place, score in zip(study.places, one.left.score(), strict=True)
    }
    return ProbeResult(
        probe="usage",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study),
        summary=summary(study, full=context.full),
        findings=tuple(findings(study, primary=context.full)),
        sets={},
        figures=figures(study),
    )


def _settings(study: Study) -> dict[str, Any]:
    nearest = unused(study)
    return {
        "pairs": study.changes.n_pairs,
        "queries": study.changes.n_queries,
        "places": [f"r{place}" for place in study.places],
        "draws": {"of_the_probe": study.draws.probe, "of_the_eraser": study.draws.eraser},
        "properties": {one.name: _of_property(study, one.name) for one in study.encoded},
        "nearest_to_unused": None if nearest is None else nearest.about.name,
        "resolution": _resolution(study),
    }


def _of_property(study: Study, name: str) -> dict[str, Any]:
    """Examples, and by place the rank of the eraser, the variance it takes, its controls."""
    (one,) = (each for each in study.encoded if each.name == name)
    return {
        "fitted_on": len(one.task.fit),
        "scored_on": len(one.task.check),
        "by_place": {
            f"r{made.place}": {
                "rank": made.rank,
                "variance": round(made.traces[0], 4),
                "permuted": len(made.permuted),
                "random": len(made.random),
                "unmatched": study.draws.of_eraser(name) - len(made.random),
            }
            for made in one.erasers
        },
    }


def _resolution(study: Study) -> dict[str, str] | None:
    """Half the widest interval of a property's use: what is smaller could not be seen."""
    found = [study.mean_used(one.name) for one in study.tested]
    ends = [percentile_interval(one.samples) for one in found if one is not None]
    halves = [(high - low) / 2 for low, high in (one for one in ends if one)]
    if not halves:
        return None
    half, n = float(np.max(halves)), study.changes.n_queries
    return {
        "zh": f"在 {n} 个查询上，各层平均的差别小于 {half:.3g} 的看不出来。",
        "en": f"On {n} queries a mean difference over layers below {half:.3g} cannot be seen.",
    }
