"""One section for each probe of the run."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.report.blocks import Block
from qt_bert.report.probes.blocks import probe_blocks
from qt_bert.report.probes.source import anchor_of, read_probes, title_of
from qt_bert.report.section import Section
from qt_bert.results import ProbeResult
from qt_bert.study import RunFolder

_AFTER_EVALUATION = 100


def sections_of(folder: RunFolder) -> tuple[Section, ...]:
    """A section for each result that is there."""
    return tuple(_section(result, place) for place, result in enumerate(read_probes(folder)))


def _section(result: ProbeResult, place: int) -> Section:
    def build(folder: RunFolder) -> Sequence[Block]:
        return probe_blocks(result)

    return Section(
        name=anchor_of(result),
        order=_AFTER_EVALUATION + place,
        title=title_of(result),
        build=build,
    )
