"""What is run: both models on pairs and sentences, and the heads that look at words of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Shape
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base
from qt_bert.probes.features.kinds import OF_ARCS, OF_TEXTS
from qt_bert.probes.features.looking import Looking, look
from qt_bert.probes.features.texts import Read, Texts, texts_of_pairs, texts_of_treebanks
from qt_bert.probes.naming import Named, Rule, by_mean, means, name_heads, one_sided_p
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

LEAST_LIFT = 1.5
"""A head is named for a kind only if it gives it so many times its share of the tokens."""


@dataclass(frozen=True, eq=False)
class Part:
    """One collection of texts: both halves under the model and, where there is one, its base.

    `named` are the heads that look at each kind of word, chosen on discovery.
    """

    discovery: Looking
    validation: Looking
    named: dict[str, Named]


@dataclass(frozen=True, eq=False)
class Study:
    """Pairs by jieba's tags, and sentences by a treebank's where one was given."""

    shape: Shape
    base: Checkpoint | None
    pairs: Part
    treebank: Part | None

    @property
    def parts(self) -> dict[str, Part]:
        """The collections by name."""
        found = {"pairs": self.pairs}
        return found if self.treebank is None else found | {"treebank": self.treebank}


def study(context: Context) -> Study:
    """Run all of it. Raises CheckpointError for a base that is none, PairFileError for bad treebanks."""
    checkpoint = context.model.checkpoint
    sentences = texts_of_treebanks(context)  # a broken file is said before anything is run
    base = None if context.base is None else open_base(context.base, checkpoint)
    pairs = _part(texts_of_pairs(context), OF_TEXTS, base, context)
    arcs = (*OF_TEXTS, *OF_ARCS)
    treebank = None if sentences is None else _part(sentences, arcs, base, context)
    return Study(checkpoint.shape, base, pairs, treebank)


def _part(texts: Texts, kinds: Sequence[str], base: Checkpoint | None, context: Context) -> Part:
    before = (
        None
        if base is None
        else Scorer(base, max_length=context.model.tokenizer.max_length).encoder
    )

    def run(reads: Sequence[Read]) -> Looking:
        with context.progress(len(reads), "pairs") as shown:
            return look(context.model, before, reads, shown=shown)

    discovery = run(texts.discovery)
    return Part(discovery, run(texts.validation), named(discovery, kinds))


def named(looking: Looking, kinds: Sequence[str]) -> dict[str, Named]:
    """The heads that look at each of `kinds`; q is over all heads and kinds together."""
    there = [kind for kind in kinds if looking.has(kind)]
    if not there:
        return {}
    tests = np.stack([one_sided_p(excess(looking, kind)) for kind in there], axis=-1)
    on_texts = 1 - means(looking.of("cls")) - means(looking.of("sep"))
    return {
        kind: name_heads(
            looking.lift(kind),
            tests,
            on_texts,
            least=LEAST_LIFT,
            choice=np.full(on_texts.shape, place),
        )
        for place, kind in enumerate(there)
    }


def excess(looking: Looking, kind: str) -> FloatArray:
    """The share of attention for a kind less its base rate [queries, layers, heads]."""
    return looking.of(kind) - looking.rate(kind)[:, None, None]


def by_lift(looking: Looking, kind: str) -> Rule:
    """The rule that puts heads in order, for any weights of the queries: by their lift.

    The base rate that shares are over is the same for all heads, so that shares put them in the
    same order.
    """
    return by_mean(looking.of(kind))
