"""Which pattern has each head's map? (`dark_secrets_of_bert`, "BERT's self-attention patterns")

The shipped rules classify every head's map of a validation pair into five kinds. Shares are over all heads,
means over a query's pairs. The shares compared with the source are corrected for the rules' errors; their
intervals cover the sampling of queries and of labelled maps. Figures show the raw shares.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.figures import Bars, HeatMap, head_map
from qt_bert.heads import Head
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.naming import by_query, means
from qt_bert.probes.pattern_maps import (
    KINDS,
    Classifier,
    Errors,
    Maps,
    are_known,
    corrected,
    open_classifier,
    rates,
)
from qt_bert.probes.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import PATTERNS, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, Interval, over_queries, query_draws

QUICK_PAIRS = 150
CORRECTED_RESAMPLES = 500
VERTICAL, HETEROGENEOUS = KINDS.index("vertical"), KINDS.index("heterogeneous")
PERCENT = 100.0


@dataclass(frozen=True, eq=False)
class Shares:
    """One model's maps by kind [queries, layers, heads, KINDS], means over a query's pairs."""

    per_query: FloatArray
    heads: Sequence[Head]

    def of_head(self, name: str) -> FloatArray:
        """The share of one of KINDS by head [layers, heads]; NaN at absent heads."""
        every = means(self.per_query[..., KINDS.index(name)])
        shares = np.full(every.shape, np.nan)
        for head in self.heads:
            shares[head] = every[head]
        return shares

    @property
    def of_all(self) -> FloatArray:
        """The shares over all heads by query [queries, KINDS]."""
        of_heads = [self.per_query[:, head.layer, head.head] for head in self.heads]
        return np.asarray(np.mean(of_heads, axis=0))


def classify(
    scorer: Scorer,
    pairs: Sequence[Pair],
    heads: Sequence[Head],
    classifier: Classifier,
    *,
    shown: Progress = silent,
) -> Shares:
    """The kinds of every map of `heads` on `pairs`."""

    def compute(view: View) -> torch.Tensor:
        """The kind of each map, one-hot [B, heads, KINDS]."""
        maps = Maps.of_batch(view.values.cpu(), view.batch.to(torch.device("cpu")))
        kinds = torch.from_numpy(classifier.answers(maps)).reshape(view.values.shape[:2])
        return torch.nn.functional.one_hot(kinds, len(KINDS)).float()

    layers = tuple(range(len(scorer.encoder.layers)))
    texts = [(pair.query, pair.title) for pair in pairs]
    reduction = Reduction("patterns", "attention", layers, compute)
    kinds = stream(scorer, texts, [reduction], shown=shown)["patterns"][0]
    return Shares(by_query(kinds.astype(np.float64), [pair.query for pair in pairs]), heads)


def measure(context: Context) -> Result:
    """Classify every head's map, also before fine-tuning with `--base`.

    Raises CheckpointError for a base of another model, ArgumentError for a model without heads.
    """
    classifier = open_classifier(shipped(PATTERNS))
    model = context.model
    if model.checkpoint.family.causal:
        return Result(nothing="causal")
    every = context.validation
    pairs = spread_over_queries(every, context.choose(QUICK_PAIRS, len(every)), context.seed)
    path, shape = context.request.base, model.checkpoint.shape
    base = None if path is None else open_base(path, model.checkpoint)
    heads = [head for head in shape.all_heads if base is None or head not in base.shape.absent]
    if not heads:
        raise ArgumentError(f"{model.checkpoint.name} has no attention heads, so it has no maps")
    scorers = [model] if base is None else [model, scorer_like(context, base)]
    with context.progress(len(scorers) * len(pairs), "pairs") as shown:
        after, *earlier = [
            classify(scorer, pairs, heads, classifier, shown=shown) for scorer in scorers
        ]
    before = earlier[0] if earlier else None
    columns = {name: after.of_head(name) for name in KINDS}
    if before is not None:
        columns |= {f"{name}_before": before.of_head(name) for name in KINDS}
    kinds = commonest(after)
    number = Counter(kinds.values())
    record = classifier.record
    return Result(
        measurements=_measurements(context, after, before, classifier),
        heads=head_table(shape, columns),
        figures=_figures(context, after, before),
        facts={
            **{f"heads_{kind}": number[kind] for kind in KINDS},
            "labelled": record.maps,
            "macro_f1": classifier.judged.macro_f1.value,
            "kappa": None if record.passes is None else record.passes.kappa.value,
            "pairs": len(pairs),
        },
        settings={
            "base": None if base is None else {"name": base.name, "sha256": base.sha256},
            "classifier": record.files,
            "commonest": {str(head): kind for head, kind in kinds.items()},
        },
        pairs=pairs,
    )


def commonest(shares: Shares) -> dict[Head, str]:
    """Each head's commonest kind; for ties the first of KINDS."""
    table = np.stack([shares.of_head(kind) for kind in KINDS], axis=-1)
    return {head: KINDS[int(np.argmax(table[head]))] for head in shares.heads}


# Shares, raw and corrected for the rules' errors.


def _measurements(
    context: Context, after: Shares, before: Shares | None, classifier: Classifier
) -> Mapping[str, Estimate | None]:
    raw = {kind: _share(after, kind) for kind in ("vertical", "heterogeneous")}
    measurements: dict[str, Estimate | None] = {
        "vertical": raw["vertical"],
        "others": PERCENT - raw["heterogeneous"],
        "vertical_rise": None if before is None else raw["vertical"] - _share(before, "vertical"),
    }
    models = [after] if before is None else [after, before]
    every = [shares.of_all for shares in models]
    return measurements | _corrected(context, every, classifier.errors)


def _share(shares: Shares, kind: str) -> Estimate:
    of_all = shares.of_all[:, KINDS.index(kind)]
    return over_queries(PERCENT * of_all, range(len(of_all)))


@dataclass(frozen=True, eq=False)
class Corrected(Estimate):
    """A corrected share, with an interval over queries and labelled maps."""

    ends: Interval | None = None

    def interval(self, resamples: int = 0, seed: int = 0) -> Interval | None:
        """The stored ends, from joint resamples of both."""
        return self.ends


def _corrected(context: Context, both: Sequence[FloatArray], errors: Errors) -> dict[str, Estimate]:
    """The measurements from shares [queries, KINDS], corrected for the rules' errors."""
    queries, confusion = len(both[0]), errors.confusion
    known = are_known(confusion)
    # A random stream independent of the one for queries.
    rng = np.random.default_rng([context.seed, zlib.crc32(b"corrected")])

    def figures(weights: FloatArray, known_rates: FloatArray) -> dict[str, float]:
        after, *before = (corrected(weights @ shares, known_rates) for shares in both)
        values = {"vertical": after[VERTICAL], "others": 1 - after[HETEROGENEOUS]}
        if before:
            values["vertical_rise"] = after[VERTICAL] - before[0][VERTICAL]
        return {key: PERCENT * float(value) for key, value in values.items()}

    whole = figures(np.full(queries, 1 / queries), rates(confusion, known))
    resamples = min(context.resamples, CORRECTED_RESAMPLES)
    resampled = [
        figures(weights / queries, rates(errors.resampled(rng), known))
        for rows in query_draws(queries, resamples, context.seed)
        for weights in rows
    ]
    keys = tuple(range(queries))
    estimates: dict[str, Estimate] = {}
    for key, value in whole.items():
        drawn = [values[key] for values in resampled]
        ends = None
        if queries > 1:
            low, high = np.quantile(drawn, [0.025, 0.975])
            ends = (float(low), float(high))
        estimates[f"{key}_corrected"] = Corrected(value, np.full(queries, value), keys, ends=ends)
    return estimates


def _figures(context: Context, after: Shares, before: Shares | None) -> list[Bars | HeatMap]:
    models = {"after": after} if before is None else {"before": before, "after": after}
    shares = {when: [_share(of, name) for name in KINDS] for when, of in models.items()}
    return [
        estimate_bars(context, "shares", KINDS, shares, digits=1),
        head_map("vertical", PERCENT * after.of_head("vertical"), low=0.0, high=PERCENT, digits=0),
    ]
