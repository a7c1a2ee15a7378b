"""How much of the matching heads' effect reaches the reader directly? (`heads_of_query_title_bert`, 2.4.3)

Path patching (Wang et al. 2022; Goldowsky-Dill et al. 2023) over z. The sender, the matching heads below the
reader chosen by `focus`, is zeroed; all other heads up to that layer keep their clean outputs, and the change
enters one projection of the reader: query, key, value, or query and key. A share is this direct change over
the total change with the heads ablated. Shares are ratios of sums over queries; those of random sets are also
of the matching heads' total change, as their own is often near 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from qt_bert.ablation.checks import check_equivalence, eight_of, in_float32
from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import Entry, Path, path_name
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.figures import Figure
from qt_bert.heads import Head
from qt_bert.probes.base import Context, Result, estimate_bars, score_unit
from qt_bert.probes.contests import layer_matched_sets
from qt_bert.probes.focus import FOCUS, KindMasks, partly_matched, read_row
from qt_bert.probes.naming import function_heads, named_beside
from qt_bert.probes.streams import for_model, stream
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, mean_of, over_queries

QUICK_LOOKED_AT = 200
QUICK_PAIRS = 48
"""Partly matched validation pairs of a quick run."""
QUICK_DRAWS, FULL_DRAWS = 20, 99
AT_ONCE = 64
"""Variants of one pass, which keeps the reader's inputs of all of them."""
SET = "matching"

Outcome = Literal["focus", "grade"]
OUTCOMES: tuple[Outcome, ...] = ("focus", "grade")
"""The focus of the reader's [CLS] row (see `focus`); the expected grade, level, or one logit."""
OUTCOME_NAMES = {"score": "score", "levels": "expected_level", "grades": "expected_grade"}
"""The text id of the second outcome, by the unit of the score."""
ENTRIES: dict[Outcome, tuple[Entry, ...]] = {"focus": ("q", "k"), "grade": ("q", "k", "v")}
"""The projections that can change an outcome: attention does not depend on the value."""


def measure(context: Context) -> Result:
    """Measure the matching heads' routes into the reader, and those of layer-matched sets."""
    focus = context.result_of("focus")
    chosen = [Head.parse(name) for name in focus.sets.get("reader", ())]
    if not chosen:
        return Result(nothing="no_reader")
    reader, matching = chosen[0], function_heads(context)
    layer = context.model.encoder.layers[reader.layer]
    if layer.groups < layer.heads:
        return Result(nothing="shared_keys", facts={"reader": str(reader)})
    if matching is None:
        return Result(nothing="no_heads")
    senders = matching.below(reader.layer)
    facts = {
        "reader": str(reader),
        "number": len(senders.heads),
        "heads": ", ".join(map(str, senders.heads)),
        "status": senders.status,
        "outcome": OUTCOME_NAMES[score_unit(context.model.checkpoint.settings.labels)],
    }
    if not senders.heads:
        return Result(
            nothing="none_below", facts={**facts, "heads": ", ".join(map(str, matching.heads))}
        )
    reliable = focus.facts.get("read") is True
    if not reliable and not context.full:
        return Result(nothing="unmeasured", facts=facts)
    pairs = _pairs(context)
    if not pairs:
        return Result(nothing="no_pairs", facts=facts)

    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    shape = context.model.checkpoint.shape
    sets, enumerated = layer_matched_sets(
        shape, senders.heads, named_beside(context, senders), draws, context.seed
    )
    check_paths(context, HeadMask(senders.heads), reader, pairs)
    routes = run_routes(context, pairs, senders.heads, sets, reader)
    figures = [_bars(context, routes, outcome) for outcome in OUTCOMES] if reliable else []
    return Result(
        measurements=_measurements(context, routes, draws=0 if enumerated else len(sets)),
        figures=[figure for figure in figures if figure is not None],
        facts={**facts, "pairs": len(pairs), "sets": len(sets)},
        settings={
            "reader": str(reader),
            "senders": senders.describe(),
            "layer_matched_sets": len(sets),
            "pairs": len(pairs),
        },
        pairs=pairs,
        nothing=None if reliable else "unread",
    )


def _pairs(context: Context) -> list[Pair]:
    """The partly matched validation pairs, as in `focus`; all under --full."""
    sample = for_model(context.validation, QUICK_LOOKED_AT, context)
    pairs, _ = partly_matched(sample, context.model, context.segmenter)
    if context.full or not pairs:
        return pairs
    return spread_over_queries(pairs, QUICK_PAIRS, context.seed)


# Runs: heads ablated, and each direct route into the reader.


@dataclass(frozen=True, eq=False)
class Routes:
    """The change of both outcomes under every variant.

    `changes` [outcomes, variants, pairs] is variant − clean, NaN for pairs whose outcome is undefined
    under any variant; `row_of`: a variant's row by name; `sets`: names of random sets.
    """

    senders: tuple[Head, ...]
    reader: Head
    sets: list[str]
    changes: FloatArray
    row_of: dict[str, int]
    queries: list[str]

    def whole(self, outcome: Outcome) -> Estimate:
        """The total change with the set ablated, mean over queries."""
        return self._change(outcome, SET)

    def direct(self, outcome: Outcome, entry: Entry, sender: str = SET) -> Estimate:
        """The direct change by one entry, with all other heads held."""
        return self._change(outcome, path_name(sender, self.reader, entry))

    def _change(self, outcome: Outcome, name: str) -> Estimate:
        return over_queries(self.changes[OUTCOMES.index(outcome)][self.row_of[name]], self.queries)


def run_routes(
    context: Context,
    pairs: Sequence[Pair],
    senders: Sequence[Head],
    sets: Sequence[Variant],
    reader: Head,
) -> Routes:
    """Run the set ablated and on every route, each of its heads by q, k and v, `sets` by q and k together."""
    scorer, together = context.model, HeadMask(tuple(senders))
    variants = [Variant(SET, (together,), "total")]
    variants += paths(SET, together, reader, ("q", "k", "v", "qk"))
    for head in senders:
        variants += paths(str(head), HeadMask((head,)), reader, ("q", "k", "v"))
    for random in sets:
        variants += paths(random.name, HeadMask(random.heads), reader, ("qk",))
    texts = [(pair.query, pair.title) for pair in pairs]
    masks = KindMasks(texts, context.segmenter)

    def compute(view: View) -> torch.Tensor:
        return read_row(scorer.encoder, masks, view)[..., FOCUS]

    row = Reduction("focus", "attention", (reader.layer,), compute, first_row=True)
    groups = [variants[start : start + AT_ONCE] for start in range(0, len(variants), AT_ONCE)]
    parts = []
    with context.progress((len(variants) + len(groups)) * len(pairs), "runs") as shown:
        for group in groups:
            outputs = stream(scorer, texts, [row], [NONE, *group], shown=shown)
            focus = outputs["focus"][:, :, 0, reader.head].astype(np.float64)
            grades = ranking_scores(outputs["logits"], scorer.checkpoint.settings.labels)
            both = np.stack([focus, grades])
            parts.append(both[:, 1:] - both[:, :1])
    changes = np.concatenate(parts, axis=1)
    undefined = ~np.isfinite(changes).all(axis=1, keepdims=True)  # under any variant
    return Routes(
        senders=tuple(senders),
        reader=reader,
        sets=[random.name for random in sets],
        changes=np.where(undefined, np.nan, changes),
        row_of={variant.name: number for number, variant in enumerate(variants)},
        queries=[pair.query for pair in pairs],
    )


def paths(name: str, sender: HeadMask, reader: Head, entries: Sequence[Entry]) -> list[Variant]:
    """The sender's direct routes into the reader as variants."""
    return [
        Variant(path_name(name, reader, entry), (Path(sender, reader, entry),), "path")
        for entry in entries
    ]


def check_paths(context: Context, sender: HeadMask, reader: Head, pairs: Sequence[Pair]) -> None:
    """The equivalence check: paths against hooks on the Hugging Face model."""
    scorer, texts = context.model, [(pair.query, pair.title) for pair in pairs]
    checkpoint, encoder = in_float32(scorer.checkpoint, scorer.encoder)
    encoded = eight_of(scorer.tokenizer.encode(texts, offsets=False))
    variants = paths(SET, sender, reader, ("q", "k", "v", "qk"))
    figures = check_equivalence(checkpoint, encoder, variants, encoded, seed=context.seed)
    context.guards["paths"] = figures


# Shares of the total change.


def share(context: Context, part: Estimate, whole: Estimate) -> Estimate | None:
    """Σ direct / Σ total; None where the total does not differ from 0."""
    return part / whole if context.sign(whole) else None


def _measurements(
    context: Context, routes: Routes, *, draws: int
) -> dict[str, Estimate | float | None]:
    focus, grade = (routes.whole(outcome) for outcome in OUTCOMES)
    direct, control = routes.direct("focus", "qk"), None
    if routes.sets:
        control = mean_of([routes.direct("focus", "qk", s) for s in routes.sets], draws=draws)
    return {
        "focus_change": focus,
        "direct_share": None if control is None else share(context, direct - control, focus),
        "focus_share_qk": share(context, direct, focus),
        "control_share_qk": None if control is None else share(context, control, focus),
        "focus_share_q": share(context, routes.direct("focus", "q"), focus),
        "focus_share_k": share(context, routes.direct("focus", "k"), focus),
        "grade_change": grade,
        "grade_share_qk": share(context, routes.direct("grade", "qk"), grade),
        "grade_share_v": share(context, routes.direct("grade", "v"), grade),
    }


def _bars(context: Context, routes: Routes, outcome: Outcome) -> Figure | None:
    """The direct shares of the set and of each of its heads; None where the total does not differ from 0."""
    whole, heads = routes.whole(outcome), list(map(str, routes.senders))
    if not context.sign(whole):
        return None
    shares: dict[str, list[Estimate]] = {
        entry: [routes.direct(outcome, entry, sender) / whole for sender in (SET, *heads)]
        for entry in ENTRIES[outcome]
    }
    return estimate_bars(context, f"routes_{outcome}", ["together", *heads], shares)
