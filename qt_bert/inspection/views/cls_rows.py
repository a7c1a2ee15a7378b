"""[CLS]'s rows of one pair in every head: the whole model, without heads, without random others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.reading import ReadPair
from qt_bert.inspection.state import State
from qt_bert.inspection.views.quantities import derived
from qt_bert.inspection.views.random_heads import random_heads
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.readers.cls_row import measure
from qt_bert.probes.readers.terms import MATCHED, Kind, kinds_of
from qt_bert.scoring.outputs import Outputs

KEPT_BYTES = 8 << 20
ROWS = "rows"


@dataclass(frozen=True, eq=False)
class Spread:
    """Random draws of [...] each: their mean, least and largest."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> Spread:
        """That of draws [draws, ...]."""
        return cls(draws.mean(0), draws.min(0), draws.max(0))


@dataclass(frozen=True, eq=False)
class Grades:
    """Outputs of the whole model and without the heads; `random`, of each draw."""

    before: Outputs
    after: Outputs | None
    random: Outputs | None


@dataclass(frozen=True, eq=False)
class ClsRows:
    """What is known of one pair, layers × heads at once.

    `before`, `after` [layers, heads, tokens] are [CLS]'s weights, `measured_…` [layers, heads,
    MEASURED] what is measured of them; None after where no heads are left out. `control` holds the
    mean weights without random heads, `random` the spread of what is measured of these; both are
    None where nothing can be drawn, and `draws` is 0. `grades` is None for a model that does not
    classify.
    """

    encoded: EncodedPair
    tokens: tuple[str, ...]
    matched: tuple[bool, ...]
    before: np.ndarray
    after: np.ndarray | None
    control: np.ndarray | None
    measured_before: np.ndarray
    measured_after: np.ndarray | None
    random: Spread | None
    draws: int
    grades: Grades | None


def cls_rows(inspected: Inspected, state: State) -> ClsRows:
    """The rows of the state's pair with its heads left out, kept for the next look."""
    key = (inspected.key, state.query, state.title, state.out, state.mode, state.seed)
    return _kept.get(key, lambda: _made(inspected, state))


def _made(inspected: Inspected, state: State) -> ClsRows:
    text = (state.query, state.title)
    encoded = inspected.encode(*text)
    part = inspected.part(state.out, state.mode)
    drawn = random_heads(inspected, state.out, state.mode, state.seed)
    variants = [NONE, *([Variant("heads out", (part,))] if part else []), *drawn]
    layers = tuple(range(inspected.shape.layers))
    rows = Reduction(ROWS, "attention", layers, _first_row, first_row=True)
    seen = inspected.run([text], variants, [rows])
    logits, weights = seen.logits[:, 0], seen.reduced[ROWS][:, 0]
    kinds = kinds_of(encoded, *text, inspected.segmenter)
    measured = _measured(weights, kinds)
    without = 1 if part else None
    first_draw = len(variants) - len(drawn)
    return ClsRows(
        encoded=encoded,
        tokens=inspected.tokens(encoded),
        matched=tuple(np.isin(kinds, MATCHED).tolist()),
        before=weights[0],
        after=None if without is None else weights[without],
        control=weights[first_draw:].mean(0) if drawn else None,
        measured_before=measured[0],
        measured_after=None if without is None else measured[without],
        random=Spread.of(measured[first_draw:]) if drawn else None,
        draws=len(drawn),
        grades=_grades(inspected, encoded, state, logits[first_draw:]),
    )


def _grades(
    inspected: Inspected, encoded: ReadPair, state: State, drawn: np.ndarray
) -> Grades | None:
    """Grades by the way of `qt-bert explain --heads-out`; of the draws, by their logits."""
    if not inspected.classifies:
        return None
    return Grades(
        inspected.graded(encoded, (), state.mode),
        inspected.graded(encoded, state.out, state.mode) if state.out else None,
        inspected.outputs(drawn) if len(drawn) else None,
    )


def _first_row(view: View) -> torch.Tensor:
    return view.values[:, :, 0]


def _measured(weights: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """MEASURED of rows [variants, layers, heads, tokens]: [variants, layers, heads, MEASURED]."""
    masks = torch.from_numpy(np.eye(len(Kind), dtype=np.float32)[kinds])[None]
    flat = torch.from_numpy(weights).flatten(0, 2)[None]
    return derived(measure(flat, masks)[0].unflatten(0, weights.shape[:3]).numpy())


_kept = Kept(most_bytes=KEPT_BYTES)
