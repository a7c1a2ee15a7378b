"""How redundant are the heads? (`heads_of_query_title_bert`, 2.1; Michel, Levy and Neubig 2019)

Heads are ablated (`zero`): random fifths of all heads, each half of the layers, each layer, each head. With
--full also each layer's feed-forward block, alone and with the heads, and the heads by `uniform` (Kovaleva et
al. 2019) and by resampling. The layer that costs least, and the head, layer and block that harm most, are
chosen on discovery. In the same run the plan chooses among the single heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.families import MaskOf, layers, random_parts, random_shares, single, sublayers
from qt_bert.ablation.importance import importance_on
from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import HeadMask, zeroed
from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import SPECIAL
from qt_bert.figures import LAYER, Curve, HeatMap, Point, cells_of, curve, head_map, known
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_points, head_table
from qt_bert.probes.contests import (
    RESAMPLED,
    Ablated,
    ablate,
    classes_settings,
    contest_pairs,
    grades_nothing,
    resampling,
)
from qt_bert.probes.features import PLACE, by_tags, of_tokens
from qt_bert.probes.naming import by_mean, means, stability
from qt_bert.probes.streams import PAIRS_A_QUERY, Shared, stream
from qt_bert.probes.texts import texts_of
from qt_bert.probes.tuning_maps import TokenMasks, links
from qt_bert.results.probe import ResultTable, Row, Stability, Value
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, mean_of, simultaneous_bound, spearman
from qt_bert.stats.tests import q_values, sign_flip_p
from qt_bert.stats.verdict import CLAIM_QUERIES
from qt_bert.text import Label

SINGLES = "singles"
"""The folder of the sweep over single heads, which a plan in the same run reuses."""
PARTS, ORDERS = 5, 8
"""Random orders of all heads, and the number of sets that each is cut in: one claim is of a fifth."""
MARGIN = -0.02
"""The change of ρ down to which a set counts as safe."""
CURVE, CURVE_DRAWS, FULL_DRAWS = (0.1, 0.4, 0.6, 0.8, 1.0), 2, 20
"""Further shares of the curve, and draws of each."""
LEAST_LOSS, SIGNIFICANT = 2.0, 0.05
"""A critical head's least loss in points, and its q over all heads."""
CLAIMS = ("random", "layer", "halves", "harmful")
SPOILED = 5
"""Pairs shown that the harmful head spoils."""
LOOKS = ("other_text", "punctuation", "itself", "sep", "cls")
"""Where the harmful head looks, from the tokens of both texts."""


@dataclass(frozen=True, eq=False)
class Alone:
    """The points that pairs lose without each head alone, and their tests; q is over all heads.

    `by_query` [queries, heads] are the losses of each query, `p` and `q` [heads].
    """

    run: Ablated
    losses: dict[Head, Estimate]
    by_query: FloatArray
    p: FloatArray
    q: FloatArray

    @classmethod
    def of(cls, context: Context, pairs: Sequence[Pair]) -> Alone:
        """Ablate each head alone on these pairs."""
        shape = context.model.checkpoint.shape
        run = ablate(context, SINGLES, single(shape, zeroed), pairs)
        losses = {head: run.loss(str(head)) for head in shape.all_heads}
        by_query = np.stack([loss.centred for loss in losses.values()], axis=1)
        p = sign_flip_p(by_query, seed=context.seed)
        q = np.array(q_values([known(value) for value in p]), np.float64)
        return cls(run, losses, by_query, p, q)

    @property
    def critical(self) -> list[Head]:
        """The critical heads, the costliest first."""
        heads = [
            head
            for (head, loss), q in zip(self.losses.items(), self.q, strict=True)
            if loss.value >= LEAST_LOSS and q < SIGNIFICANT
        ]
        return sorted(heads, key=lambda head: -self.losses[head].value)

    def stability(self, shape: Shape, seed: int) -> Stability | None:
        """The stability of the critical heads as those that cost most."""
        heads, queries = shape.all_heads, len(self.by_query)
        scores = np.full((queries, *shape.size), np.nan)
        scores[:, *np.transpose(heads)] = self.by_query
        return stability(by_mean(scores), self.critical, queries, pool=heads, seed=seed)


def measure(context: Context) -> Result:
    """Choose layers, a block and a head on discovery; ablate fifths, halves and those on validation."""
    shape = context.model.checkpoint.shape
    discovery = contest_pairs(context, context.discovery)
    validation = contest_pairs(context, context.validation, PAIRS_A_QUERY)  # two for ρ
    alone = Alone.of(context, discovery)
    with context.progress(len(discovery), "pairs") as shown:
        importance = importance_on(context.model, discovery, shown)
    critical, places = alone.critical, np.transpose(shape.all_heads)
    values = {head: loss.value for head, loss in alone.losses.items()}
    losses = shape.spread([*values.values()])
    finite = losses[np.isfinite(losses)]
    costliest = max(values, key=lambda head: values[head])
    harmful = min(values, key=lambda head: values[head])

    every_layer, beside = layers(shape, zeroed), sublayers(shape, zeroed)
    feed_forward = context.choose([], [variant for variant in beside if not variant.heads])
    on_discovery = ablate(context, "layers", [*every_layer, *feed_forward], discovery)
    worst = {
        name: min(of, key=lambda variant: on_discovery.loss(variant.name).value)
        for name, of in (("harmful_layer", every_layer), ("harmful_feed_forward", feed_forward))
        if of
    }
    rhos = {variant.name: on_discovery.rho(variant.name) for variant in every_layer}
    layer = max(rhos, key=lambda name: np.nan_to_num(rhos[name], nan=-np.inf))

    fifths = random_parts(shape, zeroed, PARTS, ORDERS, context.seed)
    halves = _halves(shape)
    heads = [v for v in single(shape, zeroed) if v.heads[0] in {harmful, *critical}]
    chosen = [v for v in (*every_layer, *feed_forward) if v.name == layer or v in worst.values()]
    whole = ablate(context, "claims", [*halves, *chosen, *heads], validation)
    half_losses = {variant.name: whole.loss(variant.name) for variant in halves}

    pairs = contest_pairs(context, context.validation)
    draws = context.choose(CURVE_DRAWS, FULL_DRAWS)
    shares = random_shares(shape, zeroed, draws, context.seed, CURVE)
    masks: dict[str, MaskOf] = {}  # the ablations beside zero
    if context.full:
        masks = {"uniform": lambda h: HeadMask(tuple(h), "uniform"), RESAMPLED: resampling(context)}
    others = _further_losses(masks, context)
    further = [
        replace(variant, name=f"{variant.name}:{kind}")
        for kind, mask in masks.items()
        for variant in layers(shape, mask)
    ]
    blocks = context.choose([], [*every_layer, *further, *beside])
    run = ablate(context, "shares", [*blocks, *shares, *fifths], pairs)
    names = [variant.name for variant in fifths]
    change = run.rho_change(*names, draws=ORDERS)
    clean = run.rho("none")
    of_fifths = np.array([run.rho(name) for name in names]) - clean
    fifth = mean_of([run.loss(name) for name in names], draws=ORDERS)
    gain = -whole.loss(str(harmful))
    claims: dict[str, Estimate | str] = {
        "random": change,
        "layer": whole.rho_change(layer) if shape.layers > 1 else "one_layer",
        "halves": half_losses["low_half"] - half_losses["high_half"]
        if len(half_losses) == 2
        else "one_layer",
        "harmful": gain,
    }
    if not whole.judged:
        claims |= {"halves": "few_of_a_label", "harmful": "few_of_a_label"}
    if grades_nothing(context):
        claims = dict.fromkeys(CLAIMS, "grades_nothing")
    enough = claims["harmful"] is gain and gain.n_queries >= CLAIM_QUERIES
    harms = enough and context.sign(gain) > 0
    bound = simultaneous_bound(-alone.by_query, context.resamples, context.seed)
    harm = {"harmful_head": str(harmful), "harmful": gain.value, "harmful_bound": bound}
    maps = _blocks(run, shape, masks, context) if blocks else ()
    return Result(
        claims=claims,
        measurements={
            "rho_without_fifth": change,
            "fifth_median": float(np.median(of_fifths)),
            "fifth_safe": None if np.isnan(clean) else float(np.mean(of_fifths > MARGIN)),
            "fifth": fifth,
            **{"low_half": None, "high_half": None, **half_losses},
            "layer_points": whole.loss(layer),
            "harmful_bound": bound,
            **{name: -whole.loss(variant.name) for name, variant in worst.items()},
            "costliest": alone.losses[costliest],
            "within_a_point": float(np.mean(np.abs(finite) < 1)) if finite.size else None,
            "importance": spearman(losses[*places], importance[*places]),
        },
        heads=head_table(
            shape,
            _columns(alone, importance, context) | {kind: -of / 100 for kind, of in others.items()},
        ),
        sets={"critical": critical, "harmful": [harmful] if harms else []},
        selected="critical",
        shown=_shown(whole, critical, context),
        stability={"critical": alone.stability(shape, context.seed)},
        figures=[
            _curve(run, shares, fifth, context),
            *_head_maps(
                {"heads": losses, **{f"heads_{kind}": of for kind, of in others.items()}}, critical
            ),
            *maps[:1],
        ],
        tables=[*maps[1:], *(_spoiled(whole, harmful, context) if harms else ())],
        facts={
            "number": round(len(shape.all_heads) / PARTS),
            "orders": ORDERS,
            "draws": len(names),
            "heads": len(shape.all_heads),
            "half": shape.layers // 2,
            "head": str(costliest),
            "chosen_layer": layer,
            "harmful_head": str(harmful),
            "harm": texts_of("redundancy").text("harm.some" if harms else "harm.none", harm),
            "worst_layer": worst["harmful_layer"].name,
            "worst_feed_forward": worst["harmful_feed_forward"].name.partition(":")[0]
            if feed_forward
            else None,
            "alone": len(critical),
            "pairs": len(pairs),
            "chosen": len(discovery),
        },
        settings={
            "classes": classes_settings(whole.pairs, whole.labels),
            "orders": ORDERS,
            "scored": {"discovery": {"pairs": len(discovery), "queries": len(alone.by_query)}},
            "changes_of_rho": [known(value) for value in of_fifths],
        },
        pairs=whole.pairs,
    )


def _halves(shape: Shape) -> list[Variant]:
    """All heads of the low and of the high half of the layers; empty for a model of one layer."""
    half = shape.layers // 2
    if not half:
        return []
    low = [head for head in shape.all_heads if head.layer < half]
    halves = {"low_half": low, "high_half": [h for h in shape.all_heads if h.layer >= half]}
    return [Variant(name, (zeroed(h),), "halves") for name, h in halves.items() if h]


def _shown(run: Ablated, critical: Sequence[Head], context: Context) -> dict[Head, bool]:
    """Whether the loss of each critical head on validation is large enough and significant."""
    losses = {head: run.loss(str(head)) for head in critical}
    return {
        head: loss.value >= LEAST_LOSS
        and bool(sign_flip_p(loss.centred, seed=context.seed) < SIGNIFICANT)
        for head, loss in losses.items()
    }


def _columns(alone: Alone, importance: FloatArray, context: Context) -> dict[str, FloatArray]:
    """Scores by name [layers, heads]; changes in points / 100, below 0 worse."""
    shape, none = context.model.checkpoint.shape, (np.nan, np.nan)
    losses, run = alone.losses.values(), alone.run
    ends = [loss.interval(context.resamples, context.seed) or none for loss in losses]
    columns = {
        "change": shape.spread([-loss.value / 100 for loss in losses]),
        "ci_low": shape.spread([-high / 100 for _, high in ends]),
        "ci_high": shape.spread([-low / 100 for low, _ in ends]),
        "p": shape.spread(list(alone.p)),
        "q": shape.spread(list(alone.q)),
        "importance": importance,
    }
    if run.labels.logits > 1:
        clean = log_softmax(run.logits("none"), axis=-1)
        ablated = (log_softmax(run.logits(str(head)), axis=-1) for head in alone.losses)
        kl = [float((np.exp(clean) * (clean - log_p)).sum(-1).mean()) for log_p in ablated]
        columns["kl"] = shape.spread(kl)
    return columns


def _curve(run: Ablated, shares: Sequence[Variant], fifth: Estimate, context: Context) -> Curve:
    """Points lost against the share of heads ablated, mean over draws."""
    draws: dict[float, list[Estimate]] = {}
    for variant in shares:
        share = float(variant.name.partition("#")[0].partition(":")[2].rstrip("%"))
        draws.setdefault(share, []).append(run.loss(variant.name))
    means = {share: mean_of(of_share, draws=len(of_share)) for share, of_share in draws.items()}
    means[100 / PARTS] = fifth
    steps = sorted(means)
    points = [Point(x=0, y=0), *estimate_points(context, steps, [means[step] for step in steps])]
    return curve("effects", {"loss": points})


# Maps of heads and layers.


def _further_losses(masks: Mapping[str, MaskOf], context: Context) -> dict[str, FloatArray]:
    """Points lost without each head by the other ablations [layers, heads]."""
    shape = context.model.checkpoint.shape
    runs = {
        kind: ablate(context, f"{SINGLES}_{kind}", single(shape, mask), context.discovery)
        for kind, mask in masks.items()
    }
    return {
        kind: shape.spread([run.loss(str(head)).value for head in shape.all_heads])
        for kind, run in runs.items()
    }


def _head_maps(maps: Mapping[str, FloatArray], critical: Sequence[Head]) -> list[HeatMap]:
    """Points lost without each head, a map for each ablation, all in the same colours."""
    end = float(np.nan_to_num(np.abs([*maps.values()])).max())
    options: dict[str, Any] = {"scale": "diverging", "high": end, "digits": 1}
    marked = {"heads": map(str, critical)}
    return [head_map(n, of, marked=marked.get(n, ()), **options) for n, of in maps.items()]


def _blocks(
    run: Ablated, shape: Shape, masks: Mapping[str, MaskOf], context: Context
) -> tuple[HeatMap, ResultTable]:
    """Points lost without each layer's heads, its feed-forward block and both; with intervals."""
    suffixes = {"heads": "", **{f"heads_{kind}": f":{kind}" for kind in masks}}
    suffixes |= {"feed_forward": ":feed_forward", "both": ":both"}
    names = {*map(str, run.folder.variants["name"])}
    layers_of = [f"L{layer}" for layer in range(shape.layers)]
    cells = [
        [
            context.cell(run.loss(layer + suffix)) if layer + suffix in names else Value(None)
            for suffix in suffixes.values()
        ]
        for layer in layers_of
    ]
    figure = HeatMap(
        name="blocks",
        y_label=LAYER,
        columns=tuple(suffixes),
        rows=tuple(layers_of),
        values=cells_of([cell.value for cell in row] for row in cells),
        scale="diverging",
        digits=1,
    )
    rows = (Row((layer,), tuple(row)) for layer, row in zip(layers_of, cells, strict=True))
    return figure, _table("blocks", ("of", *suffixes), rows)


def _table(name: str, columns: Sequence[str], rows: Iterable[Row]) -> ResultTable:
    return ResultTable(
        name=name, columns=dict(zip(columns, _words(columns), strict=True)), rows=tuple(rows)
    )


def _words(ids: Iterable[str]) -> list[Label]:
    return [texts_of("redundancy").label(f"words.{name}") for name in ids]


# What the harmful head does.


def _spoiled(run: Ablated, head: Head, context: Context) -> list[ResultTable]:
    """The pairs whose label gains most without the head, and where it looks on them; none for one logit."""
    if run.labels.logits == 1:
        return []
    now, without = (run.points(name).tolist() for name in ("none", str(head)))
    order = sorted(range(len(now)), key=lambda at: now[at] - without[at])[:SPOILED]
    most = [at for at in order if without[at] > now[at]]
    spoiled = [
        Row((pair.query, pair.title, pair.label or ""), (Value(now[at]), Value(without[at])))
        for at, pair in ((at, run.pairs[at]) for at in most)
    ]
    looks = _looks(head, run.pairs, context)
    both = zip(_words(LOOKS), means(looks[most]), means(looks), strict=True)
    of_looks = (
        Row((word,), (Value(known(here)), Value(known(overall)))) for word, here, overall in both
    )
    return [
        _table("spoiled", ("query", "title", "label", "now", "without"), spoiled),
        _table("looks", ("to", "on_spoiled", "on_all"), of_looks),
    ]


def _looks(head: Head, pairs: Sequence[Pair], context: Context) -> FloatArray:
    """The head's mean attention to LOOKS on each pair [pairs, LOOKS], NaN without such tokens."""
    texts = [(pair.query, pair.title) for pair in pairs]

    def compute(view: View) -> torch.Tensor:
        batch = view.batch.to(torch.device("cpu"))
        maps = view.values[:, head.head, None].float().cpu()
        to_other, to_marks = [], []
        for row, encoded in zip(batch.rows, batch.encoded, strict=True):
            whole = [Shared(*([(0, len(text))] for text in texts[row]))]
            to_other.append(links(encoded, whole))
            kinds = of_tokens(encoded, *(by_tags(text, lambda _: []) for text in texts[row]))
            of_texts = np.array(encoded.side) != SPECIAL
            to_marks.append(np.outer(of_texts, kinds[:, PLACE["punctuation"]] > 0))
        other, marks = (TokenMasks.of(batch, to).weights(maps)[:, 0] for to in (to_other, to_marks))
        return torch.cat([other[:, :1], marks[:, :1], other[:, 1:]], -1)

    with context.progress(len(texts), "pairs") as shown:
        reduction = Reduction("looks", "attention", (head.layer,), compute)
        return stream(context.model, texts, [reduction], shown=shown)["looks"][0, :, 0]
