"""All that is asked of a model's vectors: the same texts, places and labels for every model."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from qt_bert.data.segmenters import jieba_tagger
from qt_bert.probes.base import Context
from qt_bert.probes.layers.examples import Task
from qt_bert.probes.layers.property import DEPENDENCY, LENGTH, ORDER, PROPERTIES, UPOS, Property
from qt_bert.probes.layers.samples import natural, recombined, sizes
from qt_bert.probes.layers.text_tasks import grade_tasks, recombined_tasks
from qt_bert.probes.layers.token_tasks import Words, token_tasks
from qt_bert.probes.layers.treebank_tasks import treebank_tasks
from qt_bert.probes.shared import partition


def tasks(context: Context, asked: Collection[Property] = tuple(PROPERTIES.values())) -> list[Task]:
    """The tasks of this profile that ask for one of some properties.

    Tasks read in one pass share their texts, at one place their places. A property that these texts
    say nothing of (too few of them, or one label alone) has no task; those of a treebank have none
    without one. Raises PairFileError for too few pairs and for a broken treebank.
    """
    tokenizer = context.model.tokenizer
    fit, check = natural(context)
    found = [
        *token_tasks(fit, check, tokenizer, _words(context)),
        *grade_tasks(fit, check, tokenizer),
    ]
    if LENGTH in asked or ORDER in asked:
        found += recombined_tasks(*recombined(context), tokenizer)
    if context.treebanks and (UPOS in asked or DEPENDENCY in asked):
        limit = sizes(context).sentences
        found += treebank_tasks(context.treebanks, tokenizer, limit, context.seed)
    return [task for task in found if task.about in asked]


def _words(context: Context) -> Words:
    return Words(partition(context), jieba_tagger(context.userdict))


def by_name(found: Iterable[Task]) -> dict[str, Task]:
    """Tasks by the name of their property."""
    return {task.about.name: task for task in found}
