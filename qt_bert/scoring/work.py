"""What a run of `score` leaves while it is unfinished, so that a killed one can go on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from qt_bert.errors import RunFolderError
from qt_bert.files import read_json, write_json
from qt_bert.scoring.tables import GrowingTable
from qt_bert.scoring.title_states.forward import StateCounts


@dataclass
class ScoreReport:
    """What a finished run has to say; `already`: the output was there and nothing was done.

    `states` says how pairs were computed where title states were read.
    """

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0
    resumed_at: int = 0
    states: StateCounts = StateCounts()
    already: bool = False


@dataclass(frozen=True)
class Standing:
    """How far a run is: pairs written, the table's mark behind them, and what was counted."""

    pairs: int = 0
    mark: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0
    rejected: int = 0
    states: StateCounts = StateCounts()

    def report(self, resumed_at: int) -> ScoreReport:
        """What a run that ends here has to say."""
        counts = (self.pairs, self.truncated_titles, self.truncated_queries, self.rejected)
        return ScoreReport(*counts, resumed_at=resumed_at, states=self.states)


class Work:
    """The state file beside an output: there from before the first window until it is finished."""

    def __init__(self, out: Path, table: GrowingTable, key: str) -> None:
        self.out, self.table, self.key = out, table, key
        self.path = out.with_name(f".{out.name}.progress.json")

    def finished(self) -> ScoreReport | None:
        """The report of an output that lacks nothing; None where there is work to do."""
        if not self.out.is_file():
            return None
        if not self.path.exists():
            return ScoreReport(already=True)
        key, standing = self._stored()
        if self.table.hidden.exists() or not standing.pairs or key != self.key:
            return None
        return standing.report(resumed_at=standing.pairs)

    def begin(self, resume: bool, overwrite: bool) -> Standing:
        """Where to go on. Raises RunFolderError where the flags do not fit what is there."""
        begun = self.path.exists()
        if self.out.exists() and not overwrite and not (resume and begun):
            raise RunFolderError(f"{self.out} is there already; --overwrite replaces it")
        if overwrite or not begun:
            return self._anew()
        key, standing = self._stored()
        if not standing.pairs and not self.out.exists():
            return self._anew()
        if not resume:
            raise RunFolderError(
                f"{self.out} was begun and not finished; --resume goes on, --overwrite starts anew"
            )
        if key != self.key:
            raise RunFolderError(
                f"{self.out} was begun with another model, file or option; "
                "resume with the same, or start anew with --overwrite"
            )
        return standing

    def _anew(self) -> Standing:
        self.save(Standing())
        self.table.clear()
        return Standing()

    def _stored(self) -> tuple[str, Standing]:
        stored = read_json(self.path)
        states = StateCounts(**stored["standing"].pop("states", {}))
        return stored["key"], Standing(**stored["standing"], states=states)

    def save(self, standing: Standing) -> None:
        """Store `standing`, atomically."""
        write_json(self.path, {"key": self.key, "standing": asdict(standing)})

    def end(self) -> None:
        """Remove what an unfinished run leaves; the state first, which says it is unfinished."""
        self.path.unlink(missing_ok=True)
        self.table.clear()
