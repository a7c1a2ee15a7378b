"""Folds in which no head stands on both sides, whatever model it is in."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import IntArray
from qt_bert.probes.map_patterns.stored import DrawnMap

FOLDS = 5


def groups(maps: Sequence[DrawnMap], teacher: Mapping[str, Mapping[Head, Head]]) -> IntArray:
    """The group of every map [n]: one for each layer and head, over all models together.

    `teacher` says of smaller models which head of the larger one each was: the two are one group.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    heads = [Head(one.layer, one.head) for one in maps]
    origins = [
        teacher.get(one.model, {}).get(head, head) for one, head in zip(maps, heads, strict=True)
    ]
    number = {head: place for place, head in enumerate(dict.fromkeys(heads + origins))}
    links = [(number[one], number[other]) for one, other in zip(heads, origins, strict=True)]
    rows, columns = zip(*links, strict=True)
    graph = coo_array((np.ones(len(links)), (rows, columns)), shape=(len(number), len(number)))
    group = connected_components(graph, directed=False)[1]
    return np.array([group[number[head]] for head in heads])


def folds(labels: IntArray, group: IntArray, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    """(training, held out) rows of FOLDS folds, kinds spread over them as far as groups allow."""
    from sklearn.model_selection import StratifiedGroupKFold

    split = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kinds with fewer maps than folds: there is one
        yield from list(split.split(np.zeros(len(labels)), labels, group))
