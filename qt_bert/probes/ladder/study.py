"""What is run: the ladders on validation, that of *all* on discovery too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from qt_bert.ablation.masks import Convention
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.models.batches import Direction
from qt_bert.models.card import layers_apart
from qt_bert.probes.base import Context
from qt_bert.probes.ladder.first_layer import FirstLayer, first_layer
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.measures import quality_of
from qt_bert.probes.ladder.rungs import ALL, Ladder, Ladders, ladders, variants_of
from qt_bert.probes.ladder.step import Step, step_of
from qt_bert.probes.ladder.words import DISCOVERY, VALIDATION
from qt_bert.probes.naming import FunctionHeads, function_heads
from qt_bert.probes.split import reference
from qt_bert.probes.streams import for_model
from qt_bert.text import Text

QUICK_PAIRS = {"discovery": 160, "validation": 128}
"""Of 150 pairs and more, a rung on which none changes loses less than two points (95 %)."""
QUICK_SWAPS, FULL_SWAPS = 999, 9_999


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of.

    `metric` is what losses are judged by, `asked` the matching heads (None where no head could be
    scored), `q` that of every rung's change of `metric` on validation, `offline` the number of layers
    that read the texts apart whatever is cut.
    """

    ladders: Ladders
    metric: str
    offline: int
    discovery: Losses
    validation: Losses
    asked: FunctionHeads | None
    q: Mapping[tuple[Direction, Convention], Mapping[int, float | None]]
    first: FirstLayer
    step: Step

    @property
    def all(self) -> Ladder:
        """The ladder of *all*, masked before the softmax: it has every rung."""
        return self.ladders[ALL, "before"]

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return self.first.layers


def study(context: Context) -> Study:
    """Run what is not there yet; the sweeps lie in the probe's working folder and resume there."""
    checkpoint, files = context.model.checkpoint, context.files
    discovery = for_model(context.discovery, QUICK_PAIRS["discovery"], context)
    validation = for_model(context.validation, QUICK_PAIRS["validation"], context)
    metric = quality_of(checkpoint.settings.labels, discovery, validation)
    climbed = ladders(checkpoint.layers, full=context.full)
    lowest = climbed[ALL, "before"]
    tested = _swept(VALIDATION, files.pairs, validation, climbed.values(), context)
    chosen = _swept(DISCOVERY, files.discovery or files.pairs, discovery, [lowest], context)
    asked = function_heads(context, "matching")
    return Study(
        climbed,
        metric,
        layers_apart(checkpoint.offline),
        chosen,
        tested,
        asked,
        {key: tested.q(ladder, metric) for key, ladder in climbed.items()},
        first_layer(lowest, metric, discovery=chosen, validation=tested),
        step_of(tested, lowest, () if asked is None else asked.heads),
    )


def _swept(
    name: Text, path: Path, pairs: list[Pair], climbed: Iterable[Ladder], context: Context
) -> Losses:
    """Run the rungs on some pairs; the checks are those of the first sweep, which has every
    kind."""
    folder = run_sweep(
        context.model,
        pairs,
        variants_of(climbed),
        context.work / name.en,
        pairs_ref=reference(path, pairs),
        resamples=context.choose(None, context.resamples),  # its table of tests takes long
        seed=context.seed,
        resume=True,
        label=f"{context.label}: {name.en}",
        guards=context.guards.get("ladder"),
    )
    context.guards["ladder"] = folder.record.guards
    labels, draws = (
        context.model.checkpoint.settings.labels,
        context.choose(QUICK_SWAPS, FULL_SWAPS),
    )
    return Losses(folder, labels, context.resamples, context.seed, name, draws)
