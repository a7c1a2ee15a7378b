"""The wiring between layers: which lower head gives which upper head its focus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.figures import Edge, Graph, Node
from qt_bert.probes.display import HEAD, LAYER
from qt_bert.probes.focus.contests import Wiring
from qt_bert.probes.focus.study import Study
from qt_bert.probes.focus.words import UNIT
from qt_bert.probes.naming import means, one_sided_p
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.stats.tests import q_values
from qt_bert.text import Text

EDGES, LEAST_LOSS = 12, 0.01


@dataclass(frozen=True, eq=False)
class Wire:
    """An edge of the graph, with the losses of focus that its weight is the mean of [queries]."""

    edge: Edge
    losses: FloatArray


def wires(found: Wiring, seen: Wiring, layer: int) -> list[Wire]:
    """The strongest significant losses of focus in `found`, as they are in `seen`, of other queries.

    They lead from lower heads to those of `layer`; gains are negative. Significant: q < 0.05 over
    all pairs of heads, by two-sided t-tests over queries. Below 0.01 there is no wire. The order is
    that of `found`; what has another sign in `seen`, or none, is left out.
    """
    if not found.losses.size:
        return []
    p = np.minimum(1, 2 * np.minimum(one_sided_p(found.losses), one_sided_p(-found.losses)))
    q = np.array(q_values(list(p.ravel())), np.float64).reshape(p.shape)
    first, then = means(found.losses), means(seen.losses)
    order = np.argsort(-np.abs(np.nan_to_num(first)), axis=None, kind="stable")
    places = [np.unravel_index(place, first.shape) for place in order]
    strongest = [
        place
        for place in places
        if q[place] < FALSE_DISCOVERY_RATE and abs(first[place]) >= LEAST_LOSS
    ][:EDGES]
    return [
        Wire(
            Edge(
                source=str(found.sources[source]),
                target=f"L{layer}H{head}",
                weight=float(then[source, head]),
            ),
            seen.losses[:, source, head],
        )
        for source, head in strongest
        if first[source, head] * then[source, head] > 0
    ]


def graph(study: Study) -> Graph:
    """The edges with their heads, the matching heads, and the head that matters most; the upper layer on top."""
    strong = [wire.edge for wire in wires(study.wiring_found, study.wiring, study.layer)]
    shown = {end for edge in strong for end in (edge.source, edge.target)}
    shown |= set(map(str, study.matching))
    shown |= {str(study.chosen.head)} if study.chosen.head else set()
    heads = [head for head in study.shape.all_heads if str(head) in shown]
    layers = sorted({head.layer for head in heads}, reverse=True)
    chosen = {*study.matching, study.chosen.head}
    return Graph(
        name="wiring",
        title=Text(
            "低层的一个头给上层头多少关注度（单独去掉它时失去的量）",
            "Focus that a lower head gives an upper one (lost when it alone is left out)",
        ),
        x_label=HEAD,
        y_label=LAYER,
        unit=UNIT,
        nodes=tuple(
            Node(
                name=str(head),
                column=head.head,
                row=layers.index(head.layer),
                marked=head in chosen,
            )
            for head in heads
        ),
        edges=tuple(strong),
        note=Text(
            f"线在发现集上选：最强的至多 {EDGES} 条，不小于 {LEAST_LOSS}，q < 0.05；画的是验证集上的量，"
            "变号的不画。负值：低层的头使 [CLS] 避开共有的词。粗框：匹配头与该层最要紧的头",
            f"Wires are chosen on discovery: at most the {EDGES} strongest of {LEAST_LOSS} or more, "
            "q < 0.05. Weights are those of validation; a wire whose sign turns there is left out. "
            "Negative: the lower head turns [CLS] away from the shared terms. Outlined: the matching "
            "heads, and the head of the layer that matters most",
        ),
    )
