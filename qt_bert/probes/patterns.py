"""Which pattern has each head's map? (`dark_secrets_of_bert`, "BERT's self-attention patterns")

Every head's map of a pair of validation gets one of five kinds by the rules that ship. Shares of the
kinds are over all heads, a query's mean over its pairs. What the source is compared with are the shares
corrected for the rules' errors: their intervals hold the chance of the queries and that of the labelled
maps. The raw shares stand in the figures.
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
from qt_bert.probes.base import Context, Result
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.naming import by_query, means
from qt_bert.probes.pattern_maps import (
    KINDS,
    WHOLE,
    Classifier,
    Errors,
    Maps,
    are_known,
    corrected,
    on_own_segment,
    open_classifier,
    rates,
)
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.probes.streams import stream
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import PATTERNS, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, Interval, over_queries, query_draws

QUICK_PAIRS = 150
SEEN = (*KINDS, WHOLE)
"""What is counted of each map: its kind, and of blocks whether they are spread over everything."""
OWN_SEGMENT = 0.5
"""A block that gives its own segment less than this above an even map is noted `whole`."""
CORRECTED_RESAMPLES = 500
VERTICAL, HETEROGENEOUS = KINDS.index("vertical"), KINDS.index("heterogeneous")
PERCENT = 100.0


@dataclass(frozen=True, eq=False)
class Shares:
    """One model's maps by kind, [queries, layers, heads, SEEN]: a query's mean over its pairs.

    `second` is the same by rules fitted on the second pass of labels, where there was one.
    """

    per_query: FloatArray
    heads: Sequence[Head]
    second: FloatArray | None = None

    def of_head(self, name: str) -> FloatArray:
        """The share of maps of one of SEEN, of every head [layers, heads]; NaN where none is."""
        found = means(self.per_query[..., SEEN.index(name)])
        there = np.full(found.shape, np.nan)
        for head in self.heads:
            there[head] = found[head]
        return there

    def of_all(self, per_query: FloatArray) -> FloatArray:
        """The shares over all heads, of every query [queries, SEEN], by the first or second rules."""
        each = [per_query[:, head.layer, head.head] for head in self.heads]
        return np.asarray(np.mean(each, axis=0))


def read(
    scorer: Scorer,
    pairs: Sequence[Pair],
    heads: Sequence[Head],
    classifier: Classifier,
    *,
    shown: Progress = silent,
) -> Shares:
    """The maps of every head on `pairs` by kind; `heads` are those that count."""
    layers = tuple(range(len(scorer.encoder.layers)))

    def seen(view: View) -> torch.Tensor:
        return kinds_seen(view, classifier)

    reduction = Reduction("patterns", "attention", layers, seen)
    texts = [(pair.query, pair.title) for pair in pairs]
    found = stream(scorer, texts, [reduction], shown=shown)["patterns"][0]
    shares = by_query(found.astype(np.float64), [pair.query for pair in pairs])
    return Shares(shares[..., 0, :], heads, shares[..., 1, :] if shares.shape[-2] > 1 else None)


def kinds_seen(view: View, classifier: Classifier) -> torch.Tensor:
    """1 at what each map is, by each of the classifier's answers [B, heads, answers, SEEN]."""
    size, heads = view.values.shape[:2]
    maps = Maps.of_batch(view.values.cpu(), view.batch.to(torch.device("cpu")))
    answers = classifier.answers(maps)
    found = torch.zeros(len(maps), len(answers), len(SEEN))
    for place, kinds in enumerate(answers):
        found[torch.arange(len(maps)), place, torch.from_numpy(kinds)] = 1.0
    everywhere = (on_own_segment(maps) < OWN_SEGMENT).float()
    found[..., SEEN.index(WHOLE)] = found[..., KINDS.index("block")] * everywhere[:, None]
    return found.reshape(size, heads, len(answers), len(SEEN))


def measure(context: Context) -> Result:
    """Give every head's map its kind, before fine-tuning too where a base is given.

    Raises CheckpointError for a base that the model cannot come from, ArgumentError for a model without
    heads.
    """
    classifier = open_classifier(shipped(PATTERNS))
    model = context.model
    if model.checkpoint.family.causal:
        return Result(nothing="causal")
    every = context.validation
    pairs = spread_over_queries(every, context.choose(QUICK_PAIRS, len(every)), context.seed)
    base = (
        None if context.request.base is None else open_base(context.request.base, model.checkpoint)
    )
    shape = model.checkpoint.shape
    heads = [head for head in shape.all_heads if base is None or head not in base.shape.absent]
    if not heads:
        raise ArgumentError(f"{model.checkpoint.name} has no attention heads, so it has no maps")
    before = None
    with context.progress((1 + (base is not None)) * len(pairs), "pairs") as shown:
        after = read(model, pairs, heads, classifier, shown=shown)
        if base is not None:
            before = read(scorer_like(context, base), pairs, heads, classifier, shown=shown)
    columns = {name: after.of_head(name) for name in SEEN}
    if before is not None:
        columns |= {f"{name}_before": before.of_head(name) for name in SEEN}
    kinds = Counter(commonest(after).values())
    record = classifier.record
    return Result(
        measurements=_measurements(context, after, before, classifier),
        heads=head_table(shape, columns),
        figures=_figures(context, after, before),
        facts={
            **{f"heads_{kind}": kinds[kind] for kind in KINDS},
            "labelled": record.maps,
            "macro_f1": classifier.judged.macro_f1.value,
            "kappa": None if record.passes is None else record.passes.kappa.value,
            "pairs": len(pairs),
        },
        settings={
            "base": None if base is None else {"name": base.name, "sha256": base.sha256},
            "classifier": record.files,
            "commonest": {str(head): kind for head, kind in commonest(after).items()},
        },
        pairs=pairs,
    )


def commonest(shares: Shares) -> dict[Head, str]:
    """Each head's commonest kind; of equals the first of KINDS."""
    table = np.stack([shares.of_head(kind) for kind in KINDS], axis=-1)
    return {head: KINDS[int(np.argmax(table[head]))] for head in shares.heads}


# Shares, as they are and corrected for the rules' errors.


def _measurements(
    context: Context, after: Shares, before: Shares | None, classifier: Classifier
) -> Mapping[str, Estimate | None]:
    raw = {kind: _share(after, kind) for kind in ("vertical", "heterogeneous")}
    found: dict[str, Estimate | None] = {
        "vertical": raw["vertical"],
        "others": PERCENT - raw["heterogeneous"],
        "vertical_rise": None if before is None else raw["vertical"] - _share(before, "vertical"),
    }
    models = [after] if before is None else [after, before]
    passes = {"": (classifier.errors, [one.of_all(one.per_query) for one in models])}
    told = [one.of_all(one.second) for one in models if one.second is not None]
    if classifier.errors_second is not None and len(told) == len(models):
        passes["_second"] = (classifier.errors_second, told)
    for name, (errors, both) in passes.items():
        found |= _corrected(context, name, [one[:, : len(KINDS)] for one in both], errors)
    return found


def _share(shares: Shares, kind: str) -> Estimate:
    of_all = shares.of_all(shares.per_query)[:, SEEN.index(kind)]
    return over_queries(PERCENT * of_all, range(len(of_all)))


@dataclass(frozen=True, eq=False)
class Corrected(Estimate):
    """A corrected share, and the ends that its queries and the labelled maps give together."""

    ends: Interval | None = None

    def interval(self, resamples: int = 0, seed: int = 0) -> Interval | None:
        """The ends found: both kinds of chance were drawn at once."""
        return self.ends


def _corrected(
    context: Context, name: str, both: Sequence[FloatArray], errors: Errors
) -> dict[str, Estimate]:
    """The figures were the rules' errors those on maps they were not fitted on.

    `both` are shares [queries, KINDS], after and, where there is a base, before fine-tuning.
    """
    queries, confusion = len(both[0]), errors.confusion
    known = are_known(confusion)
    # Not the stream that the queries are drawn from: the two are to be independent.
    word = f"{name.strip('_')}_pass" if name else "corrected"
    rng = np.random.default_rng([context.seed, zlib.crc32(word.encode())])

    def figures(weights: FloatArray, known_rates: FloatArray) -> dict[str, float]:
        after, *before = (corrected(weights @ one, known_rates) for one in both)
        found = {"vertical": after[VERTICAL], "others": 1 - after[HETEROGENEOUS]}
        if before:
            found["vertical_rise"] = after[VERTICAL] - before[0][VERTICAL]
        return {key: PERCENT * float(value) for key, value in found.items()}

    once = figures(np.full(queries, 1 / queries), rates(confusion, known))
    resamples = min(context.resamples, CORRECTED_RESAMPLES)
    again = [
        figures(weights / queries, rates(errors.redrawn(rng), known))
        for rows in query_draws(queries, resamples, context.seed)
        for weights in rows
    ]
    keys = tuple(range(queries))
    found: dict[str, Estimate] = {}
    for key, value in once.items():
        drawn = [one[key] for one in again]
        ends = None
        if queries > 1:
            low, high = np.quantile(drawn, [0.025, 0.975])
            ends = (float(low), float(high))
        found[f"{key}_corrected{name}"] = Corrected(value, np.full(queries, value), keys, ends=ends)
    return found


def _figures(context: Context, after: Shares, before: Shares | None) -> list[Bars | HeatMap]:
    models = {"after": after} if before is None else {"before": before, "after": after}
    shares = {when: [_share(one, name) for name in SEEN] for when, one in models.items()}
    return [
        estimate_bars(context, "shares", SEEN, shares, digits=1),
        head_map("vertical", PERCENT * after.of_head("vertical"), low=0.0, high=PERCENT, digits=0),
    ]
