"""The head atlas, of the model and of the one beside it."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block
from qt_bert.report.comparison.names import names
from qt_bert.report.comparison.source import read_compared_probes, read_comparison
from qt_bert.report.probes.atlas import atlas
from qt_bert.report.probes.source import read_probes
from qt_bert.report.section import Section
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _build(folder: RunFolder) -> Sequence[Block] | None:
    blocks = list(atlas(read_probes(folder)))
    comparison = read_comparison(folder)
    if comparison is not None:
        _, other = names(comparison)
        blocks += atlas(read_compared_probes(folder), "_b", other)
    return blocks or None


SECTION = Section(name="atlas", order=50, title=Text("注意力头图谱", "Head atlas"), build=_build)
