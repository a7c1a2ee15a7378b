"""The first layer that must see both texts: found on discovery, tried again on validation."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import LEAST_LOSS, measure
from qt_bert.probes.ladder.rungs import Ladder


@dataclass(frozen=True)
class FirstLayer:
    """Rungs 1 … `found` of *all* each lose less than the bar on discovery, the next one does not.

    So the texts may be read apart in the layers 0 … found − 1, and layer `found` is the first that
    must see both; of a model of `layers` layers none must where found is `layers`. `again` is what
    the same rule finds on validation.
    """

    found: int
    again: int
    layers: int

    @property
    def confirmed(self) -> bool:
        """Whether the rungs that passed on discovery pass on validation."""
        return self.again >= self.found

    @property
    def none(self) -> bool:
        """Whether no layer must see both texts."""
        return self.found == self.layers


def first_layer(
    ladder: Ladder, metric: str, *, discovery: Losses, validation: Losses
) -> FirstLayer:
    """The answer for the ladder of *all*, which has every rung."""
    found, again = (free_rungs(one, ladder, metric) for one in (discovery, validation))
    return FirstLayer(found, again, len(ladder.rungs))


def free_rungs(losses: Losses, ladder: Ladder, metric: str) -> int:
    """How many rungs from the lowest on each lose less than the bar, upper end of the interval.

    A loss without an interval (a single query) shows nothing, and does not count as free.
    """
    bar = LEAST_LOSS / measure(metric, losses.labels).scale
    for layers, variant in ladder.rungs.items():
        loss = losses.loss(variant, metric)
        if loss is None or loss.high is None or not loss.high < bar:
            return layers - 1
    return len(ladder.rungs)
