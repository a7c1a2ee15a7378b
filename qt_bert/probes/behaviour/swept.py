"""Sweeps over cases: the difference of their two titles' scores under every variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.splits import spread_over_queries
from qt_bert.probes.base import Context
from qt_bert.probes.behaviour.cases import Case, Cases, titles_then_others
from qt_bert.probes.split import reference
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray


def scores_of(context: Context, cases: Sequence[Case]) -> tuple[FloatArray, FloatArray]:
    """The model's scores of titles and others [cases]: expected grades, or its one logit."""
    texts = [(pair.query, pair.title) for pair in titles_then_others(cases)]
    with context.progress(len(texts), "pairs") as shown:
        scores = _scores(context, context.model.fresh().logits(texts, shown))
    return scores[: len(cases)], scores[len(cases) :]


def swept_deltas(
    context: Context,
    cases: Cases,
    asked: Sequence[Case],
    variants: Sequence[Variant],
    name: str,
    guards: Mapping[str, Any] | None = None,
) -> FloatArray:
    """Δ of each of `asked` under the plain model and every variant [1 + variants, asked].

    The sweep lies in the folder `name` of the probe's and resumes there; its checks' figures go to
    the result, unless they are `guards`, which passed already.
    """
    pairs = titles_then_others(asked)
    folder = run_sweep(
        context.model,
        pairs,
        variants,
        context.work / name,
        pairs_ref=reference(cases.path, pairs),
        resamples=None,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: {name}",
        guards=guards,
    )
    if guards is None:
        context.guards[name] = folder.record.guards
    scores = np.stack([_scores(context, logits) for logits in folder.logits])
    return scores[:, : len(asked)] - scores[:, len(asked) :]


def some_of_each(cases: Sequence[Case], limit: int, seed: int) -> tuple[Case, ...]:
    """At most `limit` cases of each phenomenon, of as many queries as there can be, in their order."""
    by_phenomenon: dict[str, list[Case]] = {}
    for case in cases:
        by_phenomenon.setdefault(case.phenomenon, []).append(case)
    drawn = {
        pair.id
        for some in by_phenomenon.values()
        for pair in spread_over_queries([case.pairs[0] for case in some], limit, seed)
    }
    return tuple(case for case in cases if case.id in drawn)


def _scores(context: Context, logits: np.ndarray) -> FloatArray:
    labels = context.model.checkpoint.settings.labels
    return ranking_scores(np.asarray(logits), labels)
