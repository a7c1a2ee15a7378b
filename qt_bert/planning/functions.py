"""What the heads do, as the probes found: from a run folder, or from the file beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qt_bert.errors import RunFolderError
from qt_bert.results.head_table import HeadTable, table_of
from qt_bert.results.heads_file import HeadsFile
from qt_bert.results.probe import ProbeResult
from qt_bert.results.stability import is_unstable

FUNCTIONS = (
    "matching",
    "named",
    "boundary",
    "boundary_vote",
    "order",
    "order_named",
    "reader",
    "focused",
    "averted",
)
"""The named sets of heads that have a function, in the order in which they are shown."""

_BESIDE_MODEL = "heads.json"


@dataclass(frozen=True)
class Functions:
    """Set → its heads, and where that is known from: a run, the model's `heads.json`, or nowhere.

    `unstable` names the sets that were found not to be stable.
    """

    source: Literal["run", "heads.json", "none"]
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unstable: frozenset[str] = frozenset()


def functions_of(model: Path, sha256: str, run: Path | None = None) -> Functions:
    """The named sets of the model in the folder `model`, whose weights have this hash.

    Of `run`, where it is given, else of `heads.json` beside the model, where that speaks of the same
    weights. Raises RunFolderError for a run without probes or of another model, and for a damaged file.
    """
    if run is not None:
        return _functions("run", _tables_of_run(run, sha256))
    beside = model / _BESIDE_MODEL
    if not beside.is_file():
        return Functions("none")
    found = HeadsFile.read(beside)
    if found.model.sha256 != sha256:
        return Functions("none")
    return _functions("heads.json", found.probes)


def _tables_of_run(run: Path, sha256: str) -> list[HeadTable]:
    results = [ProbeResult.read(path) for path in sorted((run / "probes").glob("*.json"))]
    if not results:
        raise RunFolderError(
            f"{run} holds no finished probe (no probes/*.json); give the folder of `qt-bert report`"
        )
    for result in results:
        if result.model.sha256 != sha256:
            raise RunFolderError(
                f"{run}: its probes are of the model {result.model.name}, of other weights than the "
                "one to plan for; give a run of the same model"
            )
    return [table_of(result, ()) for result in results]


def _functions(source: Literal["run", "heads.json"], tables: Sequence[HeadTable]) -> Functions:
    found = {name: heads for table in tables for name, heads in table.sets.items() if heads}
    sets = {name: found[name] for name in FUNCTIONS if name in found}
    unstable = {
        name for table in tables for name in table.stability if is_unstable(table.stability, name)
    }
    return Functions(source, sets, frozenset(unstable & sets.keys()))
