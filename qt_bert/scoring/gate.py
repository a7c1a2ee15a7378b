"""`compare --gate`: may the second model (B) replace the first (A)? Rules in TOML, all of which must pass.

A metric passes where its whole 95 % interval lies above the allowed loss: B is non-inferior. Since all
rules must pass, intervals are not corrected for their number (R. L. Berger, "Multiparameter hypothesis
testing and acceptance sampling", Technometrics 24, 1982). Behaviour cases are a fixed list, not a sample:
B's score may not be lower. Rules of agreement limit how far B differs from A on pairs without labels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.codec import decode
from qt_bert.data.cases import read_cases, titles_then_others
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.scoring.behaviour import ScoredCases, fixed_band, measured_band, ranked_pairs
from qt_bert.scoring.evaluate import SHOWN_IN_SLICES
from qt_bert.scoring.judge import PairScorer, graded_pairs, ranking_scores
from qt_bert.scoring.unlabelled import MEASURES, span
from qt_bert.shipped import BEHAVIOURS, shipped
from qt_bert.stats.comparison import queries_without
from qt_bert.stats.estimate import LEAST_QUERIES
from qt_bert.stats.metrics import METRICS


@dataclass(frozen=True)
class Gate:
    """Metric → the allowed loss; measure of `scoring.unlabelled` → its limit; column → value → either;
    phenomena of the cases that ship."""

    metrics: dict[str, float] = field(default_factory=dict)
    agreement: dict[str, float] = field(default_factory=dict)
    slices: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    behaviours: tuple[str, ...] = ()

    def columns(self, *, labelled: bool) -> tuple[str, ...]:
        """The columns of slices with rules of metrics (`labelled`), or of agreement."""
        every = (
            (c, name) for c, v in self.slices.items() for rules in v.values() for name in rules
        )
        return tuple(dict.fromkeys(c for c, name in every if (name not in MEASURES) == labelled))


def read_gate(path: Path, labelled: bool = True, unlabelled: bool = True) -> Gate:
    """The rules of a TOML file. Raises ArgumentError for an unknown key, naming it, and for rules of metrics or of
    agreement where no pairs with, or without, labels are compared."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        gate: Gate = decode(Gate, table, "a rule")
    except (OSError, ValueError, RecursionError, RunFolderError) as error:
        raise ArgumentError(f"--gate {path}: {error}") from error
    slices = [rules for values in gate.slices.values() for rules in values.values()]
    cases = read_cases(shipped(BEHAVIOURS)).phenomena if gate.behaviours else {}
    for what, names, known in (
        ("key", table, [item.name for item in fields(Gate)]),
        ("metric", gate.metrics, [n for n, m in METRICS.items() if m.direction != "zero"]),
        ("measure", gate.agreement, MEASURES),
        ("metric of slices", set().union(*slices), (*SHOWN_IN_SLICES, *MEASURES)),
        ("behaviour", gate.behaviours, cases),
    ):
        if unknown := set(names) - set(known):
            raise ArgumentError(
                f"--gate {path}: no {what} {min(unknown)!r}; there are {', '.join(known)}"
            )
    every = (gate.metrics, gate.agreement, *slices)
    for name in chain(*every):
        if not (unlabelled if name in MEASURES else labelled):
            option = "--unlabelled" if name in MEASURES else "--pairs"
            raise ArgumentError(f"--gate {path}: {name} needs {option} FILE")
    margins = [margin for rules in every for margin in rules.values()]
    if min(margins, default=0 if gate.behaviours else -1) < 0:
        raise ArgumentError(f"--gate {path}: give [metrics], as qwk = 0.01, with losses from 0 on")
    return gate


def check_models(gate: Gate, models: Sequence[PairScorer]) -> None:
    """Raise ArgumentError for behaviours of a column of scores, which has none for their cases."""
    for model in models:
        if gate.behaviours and model.tokenizer is None:
            raise ArgumentError(
                f"--gate: {', '.join(gate.behaviours)}: {model.name} is a column, which scores no cases; compare two "
                "models, or leave behaviours out"
            )


def judge_gate(
    gate: Gate,
    compared: Mapping[str, Any],
    models: tuple[PairScorer, PairScorer],
    pairs: Path,
    reader: ReaderOptions,
) -> dict[str, Any]:
    """Whether B `passed`, and for each of the `rules` the `change` and the `reason` of a failure, or None.

    `compared` is the result of `compare_models` for A and B, by the gate's columns, that of
    `compare_unlabelled` its `agreement`. Raises ArgumentError for a slice that is not in the pairs.
    """

    def part(name: str) -> Mapping[str, Any]:
        return compared["agreement"] if name in MEASURES else compared  # type: ignore[no-any-return]

    every = {**gate.metrics, **gate.agreement}
    rules = [_rule(name, name, margin, part(name)["metrics"]) for name, margin in every.items()]
    for column, values in gate.slices.items():
        for value, margins in values.items():
            for name, margin in margins.items():
                slices = part(name)["slices"][column]
                if value not in slices:
                    raise ArgumentError(
                        f"--gate: the pairs have no {column} {value!r}; there are {', '.join(slices)}"
                    )
                rules.append(_rule(f"{name}, {column} {value}", name, margin, slices[value]))
    if gate.behaviours:
        a, b = (_cases_of(model, pairs, reader) for model in models)
        for name in gate.behaviours:
            change = b[name].score.value - a[name].score.value
            lost = f"{(b[name].outcomes < a[name].outcomes).sum()} of {len(a[name])} cases lost"
            reason = lost if change < 0 else None
            rules.append({"what": name, "margin": 0.0, "change": change, "reason": reason})
    return {"passed": all(rule["reason"] is None for rule in rules), "rules": rules}


def _rule(what: str, name: str, margin: float, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Whether B is non-inferior in a metric, or differs from A within the limit of a measure."""
    measured, reason = metrics[name], None
    low, high = measured["ci_low"], measured["ci_high"]
    n = measured.get("n_eligible", measured["n_queries"])  # those that the value rests on
    if low is None:
        reason = measured["reason"]
    elif n < LEAST_QUERIES:
        reason = f"{n} queries; a judgement needs {LEAST_QUERIES}"
    elif name in MEASURES:
        rising = span(name) > 0
        if high > margin if rising else low < margin:
            reason = f"it may be {high if rising else low:.3f}"
    elif (worst := high if METRICS[name].direction == "lower" else -low) > margin:
        reason = f"B may be worse by {worst:.3f}"
        if measured["difference"] == 0 < margin < 1:
            reason += (
                f"; {queries_without(margin):,} queries without a difference exclude {margin:g}"
            )
    value = measured["value" if name in MEASURES else "difference"]
    ends = {"ci_low": low, "ci_high": high, "reason": reason}
    return {"what": what, "margin": margin, "change": value, **ends}


def _cases_of(model: PairScorer, pairs: Path, reader: ReaderOptions) -> dict[str, ScoredCases]:
    """The cases of each phenomenon as a model scores them; one logit's band is measured on the pairs."""
    labels, cases = model.settings.labels, read_cases(shipped(BEHAVIOURS)).listed

    def scores(cases_or_pairs: Sequence[Any]) -> Any:
        return ranking_scores(model.logits([(p.query, p.title) for p in cases_or_pairs]), labels)

    band = fixed_band(labels)
    if band is None:
        ranked = ranked_pairs(graded_pairs(pairs, reader, labels)[0])
        if not ranked:
            raise ArgumentError(f"--gate: behaviours of one logit: {pairs} has one title a query")
        band = measured_band(scores(ranked), [pair.query for pair in ranked], pairs.name)
    titles, others = np.split(scores(titles_then_others(cases)), 2)
    return ScoredCases(cases, titles, others, band.value).by_phenomenon()
