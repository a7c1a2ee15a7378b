"""Which heads the page of word order leaves out together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qt_bert.encoder.heads import Head
from qt_bert.results import Text
from qt_bert.results.head_sets import set_words
from qt_bert.results.stability import Stability, set_label

ORDER, MATCHING, OWN = "order", "matching", "own"
NAMES: Mapping[str, Text] = {
    ORDER: set_words(ORDER).name,
    MATCHING: set_words(MATCHING).name,
    OWN: Text("左栏所选", "your choice"),
}


class HeadSet(NamedTuple):
    """Heads that are left out together, and what they are called."""

    name: Text
    heads: tuple[Head, ...]


def head_sets(
    named: Mapping[str, tuple[Head, ...]],
    out: tuple[Head, ...],
    stability: Mapping[str, Stability] | None = None,
) -> list[HeadSet]:
    """The order and the matching heads that a study found, and those the visitor left out.

    The same heads under two names come once, under both. `stability` says which sets are not stable.
    """
    labels = {name: set_label(name, stability or {}) for name in (ORDER, MATCHING)}
    found: dict[tuple[Head, ...], list[Text]] = {}
    for key, heads in ((ORDER, named.get(ORDER)), (MATCHING, named.get(MATCHING)), (OWN, out)):
        if heads:
            found.setdefault(tuple(sorted(heads)), []).append(labels.get(key, NAMES[key]))
    return [
        HeadSet(Text(" = ".join(n.zh for n in names), " = ".join(n.en for n in names)), heads)
        for heads, names in found.items()
    ]
