"""What is run: the same tasks of the model, of the model before fine-tuning, and of models without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.data.pairs import Pair
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base
from qt_bert.probes.layers.decode import Decoded, decode
from qt_bert.probes.layers.estimates import gained
from qt_bert.probes.layers.examples import Task
from qt_bert.probes.layers.lengths import Lengths, lengths
from qt_bert.probes.layers.mix import Mixed, mixed
from qt_bert.probes.layers.property import LENGTH, PROPERTIES
from qt_bert.probes.layers.samples import checked
from qt_bert.probes.layers.tasks import by_name, tasks
from qt_bert.probes.layers.text_tasks import OF_FIRST, first_token
from qt_bert.probes.layers.vectors import bag_reader, reader
from qt_bert.probes.naming import Estimate
from qt_bert.scoring.bulk import Scorer

QUICK_DRAWS, FULL_DRAWS = 2, 20


@dataclass(frozen=True, eq=False)
class Model:
    """What is read from one model: by layer, from bags of characters, and under --full from a mix.

    `centres` are those of the per-layer gains, by property.
    """

    checkpoint: Checkpoint
    decoded: dict[str, Decoded]
    centres: dict[str, Estimate]
    bags: dict[str, Decoded]
    mixes: dict[str, Mixed]


@dataclass(frozen=True, eq=False)
class Study:
    """Both models on the same tasks; without a base no claim is tested.

    `pairs` are those of validation that properties of the file's own pairs are scored on.
    """

    pairs: list[Pair]
    tasks: dict[str, Task]
    model: Model
    base: Model | None
    lengths: Lengths | None


def study(context: Context) -> Study:
    """Run all of it.

    Raises PairFileError for too few pairs and for a broken treebank, CheckpointError for a base that
    the model cannot come from.
    """
    checkpoint = context.model.checkpoint
    base = None if context.base is None else open_base(context.base, checkpoint)
    asked, pairs = tasks(context), checked(context)
    model = _read(context.model, asked, context)
    if base is None:
        return Study(pairs, by_name(asked), model, None, None)
    of_base = _read(_scorer(base, context), asked, context)
    asked_length = by_name(asked).get(LENGTH.name)
    found = (
        None
        if asked_length is None
        else lengths(base, asked_length, context, lambda one: reader(_scorer(one, context)))
    )
    return Study(pairs, by_name(asked), model, of_base, found)


def _scorer(checkpoint: Checkpoint, context: Context) -> Scorer:
    return Scorer(checkpoint, max_length=context.model.tokenizer.max_length)


def _read(scorer: Scorer, asked: Sequence[Task], context: Context) -> Model:
    of_texts = [task for task in asked if task.about.unit == "text"]
    every = [*asked, *map(first_token, of_texts)]
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    texts = {id(half.places.texts): half for task in asked for half in (task.fit, task.check)}
    with context.progress(sum(len(one.places.texts) for one in texts.values()), "texts") as shown:
        found = decode(reader(scorer), every, draws=draws, seed=context.seed, shown=shown)
    bags = decode(bag_reader(scorer), of_texts, draws=0, seed=context.seed)
    mixes = {}
    if context.full:
        with context.progress(len(asked), "properties") as shown:
            mixes = mixed(reader(scorer), asked, seed=context.seed, shown=shown)
    ordered = {name: found[name] for name in sorted(found, key=_rank)}
    centres = {name: gained(one, context.resamples, context.seed) for name, one in ordered.items()}
    return Model(scorer.checkpoint, ordered, centres, bags, mixes)


def _rank(name: str) -> tuple[int, str]:
    """From the surface up, what is read from [CLS] behind the text's own."""
    return list(PROPERTIES).index(name.removesuffix(OF_FIRST)), name
