"""All that is asked of a model's vectors: the same texts, places and labels for every model."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from qt_bert.pairs import segmenter
from qt_bert.pairs.tagging import jieba_tagger
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.encoded.examples import Task
from qt_bert.probes.encoded.property import (
    DEPENDENCY,
    LENGTH,
    ORDER,
    PROPERTIES,
    UPOS,
    Property,
)
from qt_bert.probes.encoded.samples import natural, recombined, sizes
from qt_bert.probes.encoded.text_tasks import grade_tasks, recombined_tasks
from qt_bert.probes.encoded.token_tasks import Words, token_tasks
from qt_bert.probes.encoded.treebank_tasks import treebank_tasks
from qt_bert.probes.word_ends.references import partition_of


def tasks(
    context: ProbeContext, asked: Collection[Property] = tuple(PROPERTIES.values())
) -> list[Task]:
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


def _words(context: ProbeContext) -> Words:
    name = partition_of(context)
    segments = (
        context.segmenter if name == context.segmenter_name else segmenter(name, context.userdict)
    )
    return Words(segments, jieba_tagger(context.userdict))


def by_name(found: Iterable[Task]) -> dict[str, Task]:
    """Tasks by the name of their property."""
    return {task.about.name: task for task in found}
