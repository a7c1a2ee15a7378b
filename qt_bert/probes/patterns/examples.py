"""A labelled map of each kind, as figures: what the words mean."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.figures import HeatMap
from qt_bert.probes.display import token_map
from qt_bert.probes.patterns.classifier import Classifier
from qt_bert.probes.patterns.kinds import CLS, KIND_NAMES, KINDS, QUERY, SEP, TITLE
from qt_bert.probes.patterns.stored import DrawnMap, read_maps
from qt_bert.text import Text

TOKENS = {CLS: "C", SEP: "S", QUERY: "q", TITLE: "t"}
_NOTE = Text(
    "C [CLS]，S [SEP]，q 查询，t 标题。两遍标注和分类器都归为这一类的图里最短的一张。",
    "C [CLS], S [SEP], q query, t title. The shortest map that both passes and the classifiers call "
    "so.",
)


def examples(classifier: Classifier) -> Iterator[HeatMap]:
    """One small map of each kind of which the record names one."""
    named = classifier.record.examples
    maps = {one.id: one for one in read_maps(classifier.folder)} if named else {}
    for kind in KINDS:
        if named.get(kind) in maps:
            yield _drawn(kind, maps[named[kind]])


def _drawn(kind: str, one: DrawnMap) -> HeatMap:
    name = KIND_NAMES[kind]
    tokens = [TOKENS[int(token)] for token in one.kinds]
    return token_map(
        f"example_{kind}",
        Text(
            f"例：{name.zh}（{one.model} L{one.layer}H{one.head}）",
            f"Example: {name.en} ({one.model} L{one.layer}H{one.head})",
        ),
        tokens,
        tokens,
        one.weights,
        low=0.0,
        note=_NOTE,
    )
