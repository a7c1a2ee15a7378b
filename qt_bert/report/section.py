"""The shape of a section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qt_bert.report.blocks import Block, Card
from qt_bert.results import Text
from qt_bert.study import RunFolder


def _no_cards(folder: RunFolder) -> Sequence[Card]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page.

    `build` draws its blocks from the result files of a run folder, or gives `None` where they are
    not there yet; `cards` adds to the summary that stays in view. `name` is its anchor.
    """

    name: str
    order: int
    title: Text
    build: Callable[[RunFolder], Sequence[Block] | None]
    cards: Callable[[RunFolder], Sequence[Card]] = _no_cards


@dataclass(frozen=True, slots=True)
class Drawn:
    """A section together with what it drew from a run."""

    section: Section
    blocks: Sequence[Block]
