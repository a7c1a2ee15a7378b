"""Which heads carry which behaviour, drawn: the map on discovery, and what was chosen on validation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from qt_bert.figures import Figure, HeatMap
from qt_bert.models.heads import Head
from qt_bert.probes.behaviour.carried import Carried
from qt_bert.probes.behaviour.study import Study
from qt_bert.probes.behaviour.words import PHENOMENON, QUICK
from qt_bert.probes.display import HEAD, LAYER, cells
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.text import Text, counted

MOST_ROWS = 30
"""Heads that the map shows; the scores of all stand in the table."""


def maps(study: Study) -> Iterator[Figure]:
    """The map by layers, or by heads with those chosen as they are on validation."""
    yield _map(study)
    if study.tested:
        yield _on_validation(study)


def _map(study: Study) -> HeatMap:
    found, by_heads = study.carried, study.carried.by_heads
    rows = _rows(found) if by_heads else list(range(len(found.variants)))
    left_out = (
        Text("逐个去掉头", "each head left out")
        if by_heads
        else Text("逐层去掉全部的头", "all heads of a layer left out")
    )
    return HeatMap(
        name="carried",
        title=Text(
            "去掉这些头，每种行为变好还是变坏",
            "What becomes of each behaviour without these heads",
        ),
        x_label=PHENOMENON,
        y_label=HEAD if by_heads else LAYER,
        unit=study.band.unit,
        columns=tuple(map(phenomenon_name, found.phenomena)),
        rows=tuple(found.variants[row].name for row in rows),
        values=cells(found.change[rows]),
        marked=_marked(found, rows),
        scale="diverging",
        note=_note(found, left_out, study.band.unit),
    )


def _rows(found: Carried) -> list[int]:
    """Heads with the smallest q of any phenomenon, then the largest change, in the order of layers."""
    largest = np.abs(found.change).max(axis=1)
    order = np.lexsort((-largest, found.q.min(axis=1)))
    return sorted(int(row) for row in order[:MOST_ROWS])


def _marked(found: Carried, rows: Sequence[int]) -> tuple[tuple[int, int], ...]:
    places = np.argwhere(found.marked[list(rows)])
    return tuple((int(row), int(column)) for row, column in places)


def _note(found: Carried, left_out: Text, unit: Text) -> Text:
    zh = (
        f"发现集的 {found.n:,} 个案例，{left_out.zh}：平均差朝应有方向变了多少（应当更好：差变大；应当相同：差变小）。"
        f"低于 0：没有这些头就判得更差。加框：全部 {found.q.size:,} 格里 q < 0.05，且变化不小于 "
        f"{found.least:.2g} {unit.zh}"
    )
    en = (
        f"{found.n:,} cases of discovery, {left_out.en}: how far the mean difference moved towards "
        "what is expected (better: it grows; alike: it shrinks). Below 0 the model does worse "
        f"without them. Outlined: q < 0.05 over all {found.q.size:,} cells, and a change of "
        f"{found.least:.2g} {unit.en} or more"
    )
    if found.by_heads and len(found.variants) > MOST_ROWS:
        zh += f"。只画 q 最小的 {MOST_ROWS} 个头，其余见分数表"
        en += f". Drawn are the {MOST_ROWS} heads of the smallest q; the others are in the table"
    if not found.by_heads:
        zh, en = f"{zh}。{QUICK.zh.rstrip('。')}", f"{en}. {QUICK.en.rstrip('.')}"
    return Text(f"{zh}。", f"{en}.")


def _on_validation(study: Study) -> HeatMap:
    """The chosen cells alone, as they are on validation."""
    phenomena = tuple(dict.fromkeys(one.phenomenon for one in study.tested))
    found: dict[tuple[Head, str], float] = {
        (head, one.phenomenon): value for one in study.tested for head, value in one.alone.items()
    }
    heads = sorted({head for head, _ in found})
    values = np.array([[found.get((head, name), np.nan) for name in phenomena] for head in heads])
    return HeatMap(
        name="chosen_heads",
        title=Text(
            "发现集上选出的头，在验证集上单独去掉",
            "Heads chosen on discovery, each left out on validation",
        ),
        x_label=PHENOMENON,
        y_label=HEAD,
        unit=study.band.unit,
        columns=tuple(map(phenomenon_name, phenomena)),
        rows=tuple(map(str, heads)),
        values=cells(values),
        scale="diverging",
        note=_chosen_note(study),
    )


def _chosen_note(study: Study) -> Text:
    cases = {one.phenomenon: one.change.n for one in study.tested}
    n, each = sum(cases.values()), _range(cases.values())
    return Text(
        "只画选出的格；与同层其他头的比较见结论表。"
        f"依据：验证集的 {n:,} 个案例，每种现象 {each} 个。",
        "Only the cells that were chosen; how they compare with others of their layers stands in the "
        f"findings. Base: {counted(n, 'case')} of validation, {each} a phenomenon.",
    )


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low}–{high}"
