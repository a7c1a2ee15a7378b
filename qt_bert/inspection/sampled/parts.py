"""A long piece of work in slices: whenever it reports progress, visitors go first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from qt_bert.inspection.turns import Job
from qt_bert.progress import Progress


class Parts:
    """The parts of a job by name, each with its `shares` of the progress."""

    def __init__(self, job: Job, shown: Progress, shares: Mapping[str, int]) -> None:
        self._job, self._shown, self._shares = job, shown, shares

    @contextmanager
    def part(self, name: str, units: int) -> Iterator[Progress]:
        """Hold a slice of the job for a part of so many `units`.

        Whenever the part advances, the slice ends and the next begins. Raises Stopped.
        """
        with ExitStack() as held:
            held.enter_context(self._job.slice())
            part = _Part(self._job, held, self._shown, name, self._shares[name], units)
            yield part
            part.finish()


class _Part:
    """One part's progress, `units` long, told as its `share` of the whole."""

    def __init__(
        self, job: Job, held: ExitStack, shown: Progress, name: str, share: int, units: int
    ) -> None:
        self._job, self._held, self._shown, self._name = job, held, shown, name
        self._share, self._units = share, max(1, units)
        self._done = self._told = 0
        shown.advance(0, name)

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Let visitors go first, then go on."""
        self._held.close()
        self._held.enter_context(self._job.slice())
        self._done += amount
        self._tell(int(self._share * min(1.0, self._done / self._units)))

    def finish(self) -> None:
        """The part is done, whatever it counted."""
        self._tell(self._share)

    def _tell(self, reached: int) -> None:
        self._shown.advance(reached - self._told, self._name)
        self._told = reached
