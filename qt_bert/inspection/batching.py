"""Scorers for long work on a shared model: small batches, and other visitors between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from qt_bert.encoder.batches import Batch
from qt_bert.inspection.turns import Turns
from qt_bert.scoring.bulk import Scorer


class SmallBatches(Scorer):
    """A scorer that counts for itself, and whose batches have at most `most` tokens."""

    def __init__(self, scorer: Scorer, most: int) -> None:
        vars(self).update(vars(scorer.fresh()))
        self._most = most

    def batches(
        self, pairs: Sequence[tuple[str, str]], budget: int, *given: Any, **more: Any
    ) -> Iterator[Batch]:
        """As of any scorer, with a lower budget."""
        return super().batches(pairs, min(budget, self._most), *given, **more)


class _InTurns(SmallBatches):
    """Hands out each batch within a visitor's turn, which lasts until the next is asked for."""

    def __init__(self, scorer: Scorer, most: int, turns: Turns, held: ExitStack) -> None:
        super().__init__(scorer, most)
        self._turns, self._held = turns, held

    def batches(
        self, pairs: Sequence[tuple[str, str]], budget: int, *given: Any, **more: Any
    ) -> Iterator[Batch]:
        for batch in super().batches(pairs, budget, *given, **more):
            self._held.enter_context(self._turns.visit())
            yield batch
            self._held.close()


@contextmanager
def in_turns(scorer: Scorer, turns: Turns, most: int) -> Iterator[Scorer]:
    """`scorer`, running each batch of at most `most` tokens as a visitor's turn of its own.

    Whatever happens to the work in the block, it leaves no turn taken. The turns are those of the
    thread, so all of the block belongs to one.
    """
    with ExitStack() as held:
        yield _InTurns(scorer, most, turns, held)
