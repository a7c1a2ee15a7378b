"""What the study of encoded against used runs: probes and erasers, then the grades behind these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.probes.base import Context
from qt_bert.probes.layers import tasks
from qt_bert.probes.layers_reading import GRADE, MATCHED, POS, PROPERTIES
from qt_bert.probes.naming import Estimate, mean_of
from qt_bert.probes.streams import for_model
from qt_bert.probes.usage.reading import Draws, Encoded, read, resampled
from qt_bert.probes.usage.sweeping import Changes, changes, sweep_erased
from qt_bert.stats.arrays import FloatArray

QUICK_PROPERTIES = (POS, MATCHED, GRADE)
"""One of syntax, one of meaning, and the ceiling; all of them stand in the same texts."""
QUICK_PAIRS = 64
QUICK_STEP = 3
"""A quick run looks at every third layer, the last among them."""
CEILING = GRADE.name
"""What the model is to tell; erasing it shows how much there is to lose, and needs no control."""
QUICK_DRAWS = Draws(probe=2, eraser=5, alone=(CEILING,))
FULL_DRAWS = Draws(probe=5, eraser=20, alone=(CEILING,))


@dataclass(frozen=True, eq=False)
class Study:
    """Properties in layers: what is read there, and what the grades lose where it is erased.

    `holds`: (property, place) → whether nothing was left to read behind the eraser.
    """

    encoded: tuple[Encoded, ...]
    places: tuple[int, ...]
    pairs: list[Pair]
    changes: Changes
    draws: Draws
    holds: dict[tuple[str, int], bool]
    resamples: int
    seed: int

    @property
    def names(self) -> list[str]:
        """The properties, from the surface up, the ceiling last."""
        return [one.name for one in self.encoded]

    @property
    def tested(self) -> list[Encoded]:
        """All but the ceiling."""
        return [one for one in self.encoded if one.name != CEILING]

    @cached_property
    def decodable(self) -> dict[tuple[str, int], Estimate]:
        """The way from the control's score to a perfect one, as a share: (property, place) → share.

        The control is a control task, or permuted labels of texts; where it does worse than a
        probe that knows nothing, that one.
        """
        found = {}
        for one in self.encoded:
            values, samples = _share(one, self.resamples, self.seed)
            for layer, place in enumerate(self.places):
                found[one.name, place] = Estimate(float(values[layer]), samples[:, layer])
        return found

    def moved(self, name: str, place: int, control: str | None = None) -> Estimate:
        """How far the grades move, or how much further than under a control.

        In nats of KL; of one logit 1 − ρ to the untouched score.
        """
        effect = self.changes.effects[name, place, self.changes.metrics.moved]
        found = effect.erased if control is None else effect.beyond(control)
        return found if self.changes.metrics.moved == "kl" else found.times(-1)

    def controls(self, name: str, place: int) -> list[str]:
        """The controls that could be drawn."""
        return list(self.changes.effects[name, place, self.changes.metrics.moved].controls)

    def used(self, name: str, place: int) -> Estimate:
        """How much further the grades move than under the control that moves them most.

        Without a control, as of the ceiling, how far they move.
        """
        found = [self.moved(name, place, one) for one in self.controls(name, place)]
        return min(found or [self.moved(name, place)], key=lambda one: one.value)

    def everywhere(self, name: str) -> list[str]:
        """The controls that could be drawn at every place."""
        drawn = [set(self.controls(name, place)) for place in self.places]
        return sorted(set.intersection(*drawn))

    def mean_moved(self, name: str, control: str | None = None) -> Estimate:
        """`moved` in the mean over the places."""
        return mean_of([self.moved(name, place, control) for place in self.places])

    def mean_used(self, name: str) -> Estimate | None:
        """How much further the grades move, in the mean over the places, than under the control
        that moves them most; None without one."""
        found = [self.mean_moved(name, control) for control in self.everywhere(name)]
        return min(found, key=lambda one: one.value, default=None)


def study(context: Context) -> Study:
    """Fit on discovery and further texts, score and sweep on validation."""
    layers = context.model.checkpoint.shape.layers
    places = places_of(layers, every=context.full)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    asked = tasks(context, context.choose(QUICK_PROPERTIES, tuple(PROPERTIES.values())))
    with context.progress(None, "texts") as shown:
        encoded = read(context.model, asked, places, draws, context.seed, shown=shown)
    encoded.sort(key=lambda one: one.name == CEILING)
    pairs = for_model(context.validation, QUICK_PAIRS, context)
    folder = sweep_erased(context, pairs, encoded)
    holds = {
        (one.name, place): held
        for one in encoded
        for place, held in zip(
            places, one.erased_well(context.resamples, context.seed), strict=True
        )
    }
    return Study(
        tuple(encoded),
        places,
        pairs,
        changes(context, folder, encoded),
        draws,
        holds,
        context.resamples,
        context.seed,
    )


def places_of(layers: int, *, every: bool) -> tuple[int, ...]:
    """r0 to rn, or every third up to rn."""
    if every:
        return tuple(range(layers + 1))
    return tuple(range(layers, 0, -QUICK_STEP))[::-1]


def _share(one: Encoded, resamples: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Values [places] and resampled ones [R, places]."""
    decoded = one.decoded

    def share(score: FloatArray, controls: list[FloatArray], guess: FloatArray) -> FloatArray:
        base = guess if not controls else np.fmax(np.mean(controls, axis=0), guess)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(base < 1, (score - base) / (1 - base), np.nan))

    value = share(
        decoded.score, [each.score() for each in decoded.controls], decoded.majority.score()
    )
    samples = share(
        resampled(decoded.own, resamples, seed),
        [resampled(each, resamples, seed) for each in decoded.controls],
        resampled(decoded.majority, resamples, seed),
    )
    return value, samples
