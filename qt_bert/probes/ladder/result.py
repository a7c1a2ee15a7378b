"""The study of ladders as a probe's result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.ladder.claims import findings
from qt_bert.probes.ladder.figures import figures, losses_of
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import LEAST_LOSS, QUALITY, measure
from qt_bert.probes.ladder.rungs import Ladder
from qt_bert.probes.ladder.study import Study
from qt_bert.probes.ladder.summary import resolution, summary
from qt_bert.probes.ladder.words import id_of
from qt_bert.probes.split import reference
from qt_bert.results.probe import ProbeResult


def result(study: Study, context: Context) -> ProbeResult:
    """Findings and figures; it scores no head and names none."""
    return ProbeResult(
        probe="ladder",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.validation.folder.pairs),
        settings=_settings(study, context),
        summary=summary(study),
        findings=tuple(findings(study)),
        sets={},
        figures=figures(study),
    )


def _settings(study: Study, context: Context) -> dict[str, Any]:
    first, step = study.first, study.step
    scale = measure(study.metric, study.validation.labels).scale
    return {
        "metric": study.metric,
        "first_layer": {
            "discovery": first.found,
            "validation": first.again,
            "layers": first.layers,
            "confirmed": first.confirmed,
            "bar": LEAST_LOSS / scale,
        },
        "step": {
            "half_way": known(step.half.value),
            "largest": known(step.largest.value),
            "matching_heads": None if study.asked is None else study.asked.describe(),
            "their_median_layer": step.middle,
            "layers_as_near": step.by_chance,
        },
        "offline_layers": study.offline,
        "measured_on": {
            one.name.en: _described(one) for one in (study.discovery, study.validation)
        },
        "rungs": _rungs(study),
        "resolution": asdict(resolution(study, context)),
    }


def _described(losses: Losses) -> dict[str, Any]:
    effects = losses.effects
    return {
        "pairs": effects.n_pairs,
        "queries": effects.n_queries,
        "uncut": {metric: effects.base(metric) for metric in QUALITY},
    }


def _rungs(study: Study) -> dict[str, dict[str, Any]]:
    """By what is cut: how many layers, the loss, the ends of its interval, and q where it was tested."""
    found = {"all_discovery": _listed(study, study.discovery, study.all)}
    for key, ladder in study.ladders.items():
        listed = _listed(study, study.validation, ladder)
        found[id_of(*key)] = listed | {"q": [study.q[key][layers] for layers in listed["layers"]]}
    return found


def _listed(study: Study, losses: Losses, ladder: Ladder) -> dict[str, list[Any]]:
    told = losses_of(losses, ladder, study.metric)
    return {
        "layers": list(told),
        "loss": [one.value for one in told.values()],
        "ci_low": [one.low for one in told.values()],
        "ci_high": [one.high for one in told.values()],
    }
