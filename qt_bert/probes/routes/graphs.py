"""The routes drawn: matching heads, the entries of the reader, and what they end in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qt_bert.ablation.patches import Entry
from qt_bert.figures import Edge, Graph, Node
from qt_bert.probes.display import known
from qt_bert.probes.routes.passes import Outcome
from qt_bert.probes.routes.shares import Shares
from qt_bert.probes.routes.study import Study
from qt_bert.probes.routes.words import SHARE_OF_SET
from qt_bert.text import Text

WHOLE_SET = "M"
"""The matching heads together, as a node."""
_SINGLE: dict[Outcome, tuple[Entry, ...]] = {"focus": ("q", "k"), "grade": ("q", "k", "v")}


def graph(study: Study, outcome: Outcome, ends_in: str, title: Text) -> Graph | None:
    """Who sends what by which entry; None where the set's change is not told from 0.

    All weights are shares of what leaving the whole set out changes, so that arrows compare. Under
    --full every matching head has its own node, else all of them one. `ends_in` names the top node.
    """
    shares, senders = _senders(study)
    if not shares.told(outcome):
        return None
    reader, entries = str(study.asked.reader), _SINGLE[outcome]
    doors = {entry: f"{reader}.{entry}" for entry in entries}
    edges = [
        Edge(source=name, target=door, weight=weight)
        for sender, name in senders
        for entry, door in doors.items()
        if (weight := known(shares.share(outcome, entry, sender, of=0).value)) is not None
    ]
    edges += [
        Edge(source=door, target=ends_in, weight=weight)
        for entry, door in doors.items()
        if (weight := known(shares.share(outcome, entry).value)) is not None
    ]
    return Graph(
        name=f"routes_{outcome}",
        title=title,
        x_label=Text("头与入口", "heads and entries"),
        y_label=Text(
            "自下而上：匹配头、阅读头的入口、结果",
            "upwards: matching heads, the reader's entries, outcome",
        ),
        unit=SHARE_OF_SET,
        nodes=tuple(_nodes(study, [name for _, name in senders], list(doors.values()), ends_in)),
        edges=tuple(edges),
        note=_note(study),
    )


def _senders(study: Study) -> tuple[Shares, list[tuple[int, str]]]:
    """The shares to draw from, and the senders' places in them with their nodes' names."""
    if study.layer is None:
        return study.reader, [(0, WHOLE_SET)]
    return study.layer, [(n, str(head)) for n, head in enumerate(study.asked.senders.heads, 1)]


def _nodes(study: Study, senders: Sequence[str], doors: Sequence[str], top: str) -> Iterator[Node]:
    """Outcome on top, entries below it, then a row for each layer of senders."""
    width = max(len(senders), len(doors))
    layers = sorted({head.layer for head in study.asked.senders.heads}, reverse=True)
    rows = {str(head): 2 + layers.index(head.layer) for head in study.asked.senders.heads}
    (centre,) = _spread(1, width)
    yield Node(name=top, column=centre, row=0, marked=True)
    for door, column in zip(doors, _spread(len(doors), width), strict=True):
        yield Node(name=door, column=column, row=1)
    for name, column in zip(senders, _spread(len(senders), width), strict=True):
        yield Node(name=name, column=column, row=rows.get(name, 2))


def _spread(count: int, width: int) -> list[int]:
    """So many different columns, evenly over `width`."""
    return [int((2 * place + 1) * width / (2 * count)) for place in range(count)]


def _note(study: Study) -> Text:
    heads = " ".join(map(str, study.asked.senders.heads))
    whole = study.layer is None
    zh = (
        f"{WHOLE_SET}：匹配头整组（{heads}）。"
        if whole
        else "线宽按整组的总变化计，各头相加不必等于整组。"
    )
    en = (
        f"{WHOLE_SET}: the matching heads together ({heads})."
        if whole
        else "Weights are of the whole set's change; those of its heads need not add up to the set's."
    )
    return Text(
        f"{zh}下面的线：只经这个入口直接到达的份额；上面的线：整组经这个入口的份额。其余部分经由别的头，不画。"
        "负值：直接到达的部分与总变化方向相反",
        f"{en} Lower arrows: the share that arrives directly by this entry alone; upper ones: that of "
        "the whole set. The rest travels through other heads and is not drawn. Negative: what arrives "
        "directly turns the outcome the other way than the whole",
    )
