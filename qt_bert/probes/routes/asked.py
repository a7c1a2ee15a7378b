"""What a run of routes asks about: which heads send, which read, and on which pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head, checked_heads, spell
from qt_bert.probes.base import Context
from qt_bert.probes.focus import partly_matched
from qt_bert.probes.naming import FunctionHeads, function_heads
from qt_bert.probes.streams import for_model
from qt_bert.results.probe import is_unstable
from qt_bert.text import Text

QUICK_PAIRS = 48
QUICK_LOOKED_AT = 200
"""Pairs of a quick run, and as many of validation that they are taken from, as in `focus`."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Matching heads below the layer of `receivers`, and pairs some of whose characters match.

    The first receiver is the one that the claim is about; all are of one layer. `unstable`: it is the
    reader that `focus` chose, and may be another on other queries.
    """

    senders: FunctionHeads
    receivers: tuple[Head, ...]
    pairs: list[Pair]
    unstable: bool = False

    @property
    def reader(self) -> Head:
        """The receiver that the claim is about."""
        return self.receivers[0]

    @property
    def notes(self) -> list[Text]:
        """What every figure says of its heads."""
        found = [] if self.senders.note is None else [self.senders.note]
        return [*found, NOT_STABLE] if self.unstable else found


def asked(context: Context, receivers: Sequence[Head] | None = None) -> Asked | Text:
    """What to run, or why there is nothing to run.

    `receivers` are heads of any one upper layer; by default the reader that `focus` chose, under
    --full with all other heads of its layer. Raises ArgumentError for receivers of several layers,
    or that the model does not have.
    """
    into = _receivers(context) if receivers is None else _checked(receivers, context)
    if not into:
        return _NO_READER
    senders = function_heads(context, "matching")
    if senders is None:
        return _NO_SENDERS
    below = senders.below(into[0].layer)
    if not below.heads:
        return _nothing_below(senders, into[0])
    pairs = _pairs(context)
    if not pairs:
        return _NO_PAIRS
    unstable = receivers is None and is_unstable(context.found("focus").stability, "reader")
    return Asked(below, into, pairs, unstable)


def _receivers(context: Context) -> tuple[Head, ...]:
    readers = [Head.parse(name) for name in context.found("focus").sets.get("reader", ())]
    if not readers or not context.full:
        return tuple(readers[:1])
    reader, there = readers[0], context.model.checkpoint.shape.all_heads
    beside = [head for head in there if head.layer == reader.layer and head != reader]
    return (reader, *beside)


def _checked(receivers: Sequence[Head], context: Context) -> tuple[Head, ...]:
    into = checked_heads(receivers, context.model.checkpoint.shape)
    if len({head.layer for head in into}) > 1:
        raise ArgumentError(f"receivers {spell(into)}: name heads of one layer")
    return tuple(into)


def _pairs(context: Context) -> list[Pair]:
    """Partly matched pairs of validation, as `focus` takes them; under --full all."""
    looked_at = for_model(context.validation, QUICK_LOOKED_AT, context)
    found = partly_matched(looked_at, context.model, context.segmenter)[0]
    if context.full or not found:
        return found
    return spread_over_queries(found, QUICK_PAIRS, context.seed)


NOT_STABLE = Text(
    "阅读头不稳定，换一批查询可能选出另一个",
    "the reader is not stable: other queries may choose another",
)
_NO_READER = Text(
    "没有可以问的路径：focus 没有选出阅读头。",
    "No route to ask about: `focus` chose no reader.",
)
_NO_SENDERS = Text(
    "没有可以问的路径：matching 没有给任何头打分；可用 --heads 指定。",
    "No route to ask about: `matching` scored no head; name some with --heads.",
)
_NO_PAIRS = Text(
    "没有可以问的路径：没有一对样本的字部分匹配、部分不匹配。",
    "No route to ask about: no pair has characters that match and others that do not.",
)


def _nothing_below(senders: FunctionHeads, reader: Head) -> Text:
    heads = spell(senders.heads)
    return Text(
        f"没有可以问的路径：匹配头（{heads}）没有一个在 {reader} 之下。",
        f"No route to ask about: none of the matching heads ({heads}) lies below {reader}.",
    )
