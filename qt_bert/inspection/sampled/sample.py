"""The few pairs that heads are scored on here, and the tables made of the scores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from qt_bert.encoder.heads import Head, Shape, names_of
from qt_bert.errors import QtBertError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.files import sha256_file
from qt_bert.inspection.batching import SmallBatches
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.sampled.parts import Parts
from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.probes.common.maps import known
from qt_bert.probes.registry import probes
from qt_bert.results.head_table import HeadTable, rounded
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, TEST, shipped

PAIRS = 64
"""Pairs of each of the two splits that ship."""
PROFILE = "here"
SLICE_TOKENS = 384
"""Tokens that are computed at once: what a slice of the job has time for."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A model, the parts of the work, and pairs of the splits that ship."""

    inspected: Inspected
    parts: Parts

    @cached_property
    def scorer(self) -> Scorer:
        """The model's, in batches that fit into a slice."""
        return SmallBatches(self.inspected.scorer, SLICE_TOKENS)

    @cached_property
    def dev(self) -> list[Pair]:
        """Few pairs of many queries."""
        return _pairs(self.inspected, DEV)

    @cached_property
    def test(self) -> list[Pair]:
        """Few pairs of many other queries."""
        return _pairs(self.inspected, TEST)

    @property
    def pairs(self) -> list[Pair]:
        """Both."""
        return [*self.dev, *self.test]

    @property
    def shape(self) -> Shape:
        """The model's layers and heads."""
        return self.inspected.shape

    def table(
        self,
        probe: str,
        pairs: Sequence[Pair],
        columns: Mapping[str, FloatArray],
        sets: Mapping[str, Iterable[Head]],
        splits: Sequence[str] = (DEV, TEST),
    ) -> HeadTable:
        """The table of a probe: scores [layers, heads] by name, made on `pairs` of `splits`."""
        declared = next(one for one in probes() if one.name == probe)
        return HeadTable(
            probe=probe,
            title=declared.title,
            order=declared.order,
            profile=PROFILE,
            pairs=_ref(pairs, splits),
            summary=declared.question,
            sets={name: names_of(heads) for name, heads in sets.items()},
            scores=tuple(columns),
            heads=names_of(self.shape.all_heads),
            values=tuple(
                tuple(rounded(known(float(column[head]))) for column in columns.values())
                for head in self.shape.all_heads
            ),
        )


def _pairs(inspected: Inspected, split: str) -> list[Pair]:
    """Without labels where the model cannot be judged by those that ship."""
    path, options = shipped(split), ReaderOptions()
    try:
        pairs, _ = graded_pairs(path, options, inspected.labels)
    except QtBertError:
        pairs = [replace(pair, label=None, grades=None) for pair in options.open(path)]
    return spread_over_queries(pairs, PAIRS)


def _ref(pairs: Sequence[Pair], splits: Sequence[str]) -> PairsRef:
    paths = [shipped(split) for split in splits]
    hashes = [sha256_file(path) for path in paths]
    both = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return PairsRef(
        name=" + ".join(path.name for path in paths),
        sha256=both,
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
    )
