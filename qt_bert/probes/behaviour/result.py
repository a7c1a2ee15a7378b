"""The behaviour card as a probe's result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from qt_bert.models.heads import names_of
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.carried import QUICK_CASES
from qt_bert.probes.behaviour.cases import ALIKE, titles_then_others
from qt_bert.probes.behaviour.claims import findings
from qt_bert.probes.behaviour.figures import figures
from qt_bert.probes.behaviour.stable import stable_sets
from qt_bert.probes.behaviour.study import OfHalf, Study
from qt_bert.probes.behaviour.summary import summary
from qt_bert.probes.behaviour.tallies import RELATIONS, Tally
from qt_bert.probes.display import known
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.tests import q_values


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, figures, and under --full the scores of every head with the chosen sets."""
    sets = {one.name: names_of(one.heads) for one in study.tested}
    shape = context.model.checkpoint.shape
    return ProbeResult(
        probe="behaviour",
        model=context.model_ref,
        pairs=reference(study.cases.path, titles_then_others(study.validation.judged.cases)),
        settings=_settings(study, context),
        summary=summary(study, full=context.full),
        findings=tuple(findings(study)),
        heads=_heads(study, sets) if context.full else (),
        sets=sets,
        stability=stable_sets(study.carried, study.tested, shape, context.seed),
        figures=figures(study, context),
    )


def _heads(study: Study, sets: dict[str, tuple[str, ...]]) -> tuple[HeadScores, ...]:
    """Of every head the change that its absence makes on discovery, by phenomenon."""
    found, chosen = study.carried, {head for heads in sets.values() for head in heads}
    return tuple(
        HeadScores(
            head=variant.name,
            scores=dict(zip(found.phenomena, map(known, changes), strict=True)),
            selected=variant.name in chosen,
        )
        for variant, changes in zip(found.variants, found.change, strict=True)
    )


def _settings(study: Study, context: Context) -> dict[str, Any]:
    cases, found, one_logit = study.cases, study.carried, study.band.gaps is not None
    unused = context.band_from is not None and not one_logit
    return {
        "cases": {
            "file": cases.path.name,
            "texts_sha256": cases.texts_sha256,
            "in_all": len(cases.listed),
            "discovery": len(study.discovery.judged),
            "validation": len(study.validation.judged),
        },
        "band": asdict(study.band) | ({"band_from": "not used: it has grades"} if unused else {}),
        "phenomena": _by_phenomenon(study),
        "heads_left_out": {
            "mode": "zero",
            "alone": context.full,
            "cases": found.n,
            "of_a_phenomenon": "all" if context.full else QUICK_CASES,
            "cells": int(found.q.size),
            "least_change": known(found.least),
            "marked": int(found.marked.sum()),
            "draws": {one.name: one.draws for one in study.tested},
        },
        "resolution": _resolution(study),
    }


def _by_phenomenon(study: Study) -> dict[str, list[dict[str, Any]]]:
    halves = {"validation": study.validation, "discovery": study.discovery}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in study.cases.phenomena}
    for half, own in halves.items():
        q = _q_by_phenomenon(own)
        for name, tally in own.tallies.items():
            found[name].append({"half": half, **_numbers(tally), **q[name]})
    return found


def _q_by_phenomenon(own: OfHalf) -> dict[str, dict[str, float | None]]:
    """q of mean Δ and of scores, each over the phenomena of one relation.

    Scores of `better` ones have theirs as findings, and none here.
    """
    found: dict[str, dict[str, float | None]] = {}
    for relation in RELATIONS:
        some = [one for one in own.tallies.values() if one.relation == relation]
        scores = q_values([one.score.p if relation == ALIKE else None for one in some])
        deltas = q_values([one.delta.p for one in some])
        for one, score, delta in zip(some, scores, deltas, strict=True):
            found[one.phenomenon] = {"score_q": score, "mean_difference_q": delta}
    return found


def _numbers(tally: Tally) -> dict[str, Any]:
    return {
        "relation": tally.relation,
        "cases": tally.n,
        "queries": tally.score.n_queries,
        "right": tally.right,
        "undecided": tally.undecided,
        "wrong": tally.wrong,
        "score": known(tally.score.value),
        "score_interval": tally.score.interval,
        "score_p": tally.score.p,
        "mean_difference": known(tally.delta.value),
        "mean_difference_interval": tally.delta.interval,
        "mean_difference_p": tally.delta.p,
        "first_title_higher": known(tally.higher.value),
    }


def _resolution(study: Study) -> dict[str, str] | None:
    """Half the median interval of a phenomenon's score."""
    ends = [one.score.interval for one in study.validation.tallies.values()]
    halves = [(high - low) / 2 for low, high in (one for one in ends if one is not None)]
    if not halves:
        return None
    half = float(np.median(halves))
    return {
        "zh": f"每种现象约 {_usual(study)} 个案例，得分与 0 相差不到约 {half:.2f} 就看不出来。",
        "en": f"With about {_usual(study)} cases a phenomenon, a score within about {half:.2f} of 0 "
        "could not be told from it.",
    }


def _usual(study: Study) -> int:
    return int(np.median([one.n for one in study.validation.tallies.values()]))
