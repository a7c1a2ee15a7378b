"""What the heads do, as the probes found: from a run folder, or from the file beside the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from qt_bert.errors import RunFolderError
from qt_bert.results.head_table import HeadTable, table_of
from qt_bert.results.heads_file import HeadsFile
from qt_bert.results.probe import ProbeResult

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
    """Set → its heads, and where that is known from: a run, the model's `heads.json`, or nowhere."""

    source: Literal["run", "heads.json", "none"]
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def functions_of(model: Path, sha256: str, run: Path | None = None) -> Functions:
    """The named sets of the model in the folder `model`, whose weights have this hash.

    Of `run`, where it is given, else of `heads.json` beside the model, where that speaks of the same
    weights. Raises RunFolderError for a run without probes or of another model, and for a damaged file.
    """
    if run is not None:
        return Functions("run", _sets(_tables_of_run(run, sha256)))
    beside = model / _BESIDE_MODEL
    if not beside.is_file():
        return Functions("none")
    found = HeadsFile.read(beside)
    if found.model.sha256 != sha256:
        return Functions("none")
    return Functions("heads.json", _sets(found.probes))


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


def _sets(tables: Iterable[HeadTable]) -> dict[str, tuple[str, ...]]:
    found = {name: heads for table in tables for name, heads in table.sets.items() if heads}
    return {name: found[name] for name in FUNCTIONS if name in found}
