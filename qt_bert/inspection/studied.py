"""What the probes found for one model: from a run, from the file beside its weights, or computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from qt_bert.errors import QtBertError, RunFolderError
from qt_bert.figures import Figure
from qt_bert.models.folder import HEADS
from qt_bert.models.heads import Head, Shape
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import HeadsFile, HeadTable, head_tables
from qt_bert.results.probe import ProbeResult, Stability
from qt_bert.run.alone import read_probes
from qt_bert.run.folder import RunFolder
from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Inspected

_HERE: WeakKeyDictionary[Inspected, Studied] = WeakKeyDictionary()
"""What was computed in this process; it goes with its model."""

FIGURES = {
    "behaviour": ("scores_better", "scores_alike", "carried"),
    "routes": ("routes_focus", "routes_grade"),
}
"""The figures of a run that a page shows, by probe."""

PROFILES = {"quick": Text("快速", "quick"), "full": Text("完整", "full")}


@dataclass(frozen=True, eq=False, kw_only=True)
class Studied:
    """The head tables of one model. `origin` says where they come from, and on how many pairs.

    `tested` is False for those computed here: no claim was tested, and no head has an interval.
    `figures` are those of `FIGURES` that a run has, by probe; None where the source is no run.
    """

    tables: tuple[HeadTable, ...]
    origin: Text
    tested: bool = True
    figures: Mapping[str, tuple[Figure, ...]] | None = None

    @cached_property
    def sets(self) -> dict[str, tuple[Head, ...]]:
        """The named sets that are not empty, in a fixed order; heads in the order of the probe."""
        found: dict[str, tuple[Head, ...]] = {}
        for table in self.tables:
            for name, heads in table.sets.items():
                if heads:
                    found.setdefault(name, tuple(map(Head.parse, heads)))
        order = {name: place for place, name in enumerate(SETS)}
        return dict(sorted(found.items(), key=lambda one: (order.get(one[0], len(order)), one[0])))

    @cached_property
    def stability(self) -> dict[str, Stability]:
        """How much of a set comes back, where its probe says so."""
        found: dict[str, Stability] = {}
        for table in self.tables:
            for name, one in table.stability.items():
                found.setdefault(name, one)
        return found

    def table(self, probe: str) -> HeadTable | None:
        """The table of one probe, where it ran."""
        return next((table for table in self.tables if table.probe == probe), None)

    def scores(self, probe: str) -> dict[Head, dict[str, float | None]]:
        """Head → score → value of one probe; nothing for a probe that did not run."""
        table = self.table(probe)
        return {} if table is None else {Head.parse(h): s for h, s in table.rows().items()}


class Looked(NamedTuple):
    """What was found, if anything, and in words why results that are there were not taken."""

    studied: Studied | None
    refused: tuple[Text, ...] = ()


def computed_here(inspected: Inspected) -> Studied | None:
    """What was computed in this process for a model, by any visitor."""
    return _HERE.get(inspected)


def keep_here(inspected: Inspected, studied: Studied) -> None:
    """Keep what was computed for a model, for every visitor, as long as the model is open."""
    _HERE[inspected] = studied


def look_for_studied(inspected: Inspected, run: Path | None) -> Looked:
    """Stored results alone, with a word for each place whose results are damaged or of other weights."""
    refused: list[Text] = []
    beside = inspected.scorer.checkpoint.folder / HEADS
    places = [] if run is None else [(run, _of_run)]
    places += [(beside, _of_file)] if beside.is_file() else []
    for path, read in places:
        try:
            studied, sha256 = read(path)
            _check(studied, sha256, inspected, path)
        except QtBertError as error:
            refused.append(
                Text(f"没有采用 {path.name}：{error}", f"{path.name} was not taken: {error}")
            )
        else:
            return Looked(studied, tuple(refused))
    return Looked(None, tuple(refused))


def _of_run(path: Path) -> tuple[Studied, str]:
    results = read_probes(RunFolder.read(path))
    if not results:
        raise RunFolderError(f"{path}: no probe of this run is finished")
    models = {result.model.sha256 for result in results}
    if len(models) > 1:
        raise RunFolderError(f"{path}: its results are of different models")
    tables = head_tables(results)
    studied = Studied(
        tables=tuple(tables),
        origin=_origin(tables, path.name),
        figures={result.probe: _shown(result) for result in results if result.probe in FIGURES},
    )
    return studied, models.pop()


def _shown(result: ProbeResult) -> tuple[Figure, ...]:
    return tuple(one for one in result.figures if one.name in FIGURES[result.probe])


def _of_file(path: Path) -> tuple[Studied, str]:
    stored = HeadsFile.read(path)
    origin = _origin(stored.probes, f"{path.parent.name}/{path.name}")
    return Studied(tables=stored.probes, origin=origin), stored.model.sha256


def _check(studied: Studied, sha256: str, inspected: Inspected, path: Path) -> None:
    """Raise RunFolderError for results of other weights, or of heads that the model does not have."""
    if sha256 != inspected.sha256:
        raise RunFolderError(
            f"{path} is of other weights than {inspected.name}; run `qt-bert report` for this model"
        )
    outside = _outside(studied.tables, inspected.shape)
    if outside:
        raise RunFolderError(f"{path} names {outside}, which {inspected.name} does not have")


def _outside(tables: Sequence[HeadTable], shape: Shape) -> str | None:
    known = set(map(str, shape.all_heads))
    named = (h for t in tables for heads in (t.heads, *t.sets.values()) for h in heads)
    return next((head for head in named if head not in known), None)


def _origin(tables: Sequence[HeadTable], name: str) -> Text:
    """The file, its profile, and the pairs: the largest number that a probe scored heads on."""
    profiles = {table.profile: None for table in tables}
    said = [PROFILES.get(profile, Text(profile, profile)) for profile in profiles]
    scored = [table for table in tables if table.scores] or tables
    largest = max(scored, key=lambda table: table.pairs.n_pairs or 0, default=None)
    pairs, where = (0, "") if largest is None else (largest.pairs.n_pairs or 0, largest.pairs.name)
    return Text(
        f"{name}：{'、'.join(one.zh for one in said)}研究，{where} 的至多 {pairs:,} 对",
        f"{name}: {', '.join(one.en for one in said)} study, up to {pairs:,} pairs of {where}",
    )
