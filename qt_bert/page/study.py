"""What is known of a model's heads: from a run, or from the file beside its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from qt_bert.errors import QtBertError, RunFolderError
from qt_bert.heads import Head, names_of
from qt_bert.models.folder import HEADS
from qt_bert.page.model import Inspected
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import HeadsFile, HeadTable, head_tables
from qt_bert.results.probe import Stability
from qt_bert.run.folder import RunFolder, read_probes
from qt_bert.text import Text, join

PROFILES = {"quick": Text("快速", "quick"), "full": Text("完整", "full")}


@dataclass(frozen=True, eq=False, kw_only=True)
class Studied:
    """The head tables of one model. `origin` says where they come from, and on how many pairs."""

    tables: tuple[HeadTable, ...]
    origin: Text

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
        return {k: v for table in reversed(self.tables) for k, v in table.stability.items()}


class Looked(NamedTuple):
    """What was found, if anything, and in words why results that are there were not taken."""

    studied: Studied | None
    refused: tuple[Text, ...] = ()


def look_for_studied(inspected: Inspected, run: Path | None) -> Looked:
    """Stored results alone, with a word for each place whose results are damaged or of other weights."""
    refused: list[Text] = []
    beside = inspected.scorer.checkpoint.folder / HEADS
    for path in (run, beside if beside.is_file() else None):
        if path is None:
            continue
        try:
            return Looked(_read(path, inspected, of_run=path is run), tuple(refused))
        except QtBertError as error:
            refused.append(
                Text(f"没有采用 {path.name}：{error}", f"{path.name} was not taken: {error}")
            )
    return Looked(None, tuple(refused))


def _read(path: Path, inspected: Inspected, *, of_run: bool) -> Studied:
    """Raise RunFolderError for results of other weights, or of heads that the model does not have."""
    if of_run:
        results = read_probes(RunFolder.read(path))
        if not results:
            raise RunFolderError(f"{path}: no probe of this run is finished")
        tables, models = tuple(head_tables(results)), {result.model.sha256 for result in results}
    else:
        stored = HeadsFile.read(path)
        tables, models = stored.probes, {stored.model.sha256}
    if models != {inspected.sha256}:
        raise RunFolderError(
            f"{path} is of other weights than {inspected.name}; run `qt-bert report` for this model"
        )
    there = set(names_of(inspected.shape.all_heads))
    for table in tables:
        for head in (*table.heads, *(head for heads in table.sets.values() for head in heads)):
            if head not in there:
                raise RunFolderError(f"{path} names {head}, which {inspected.name} does not have")
    name = path.name if of_run else f"{path.parent.name}/{path.name}"
    return Studied(tables=tables, origin=_origin(tables, name))


def _origin(tables: Sequence[HeadTable], name: str) -> Text:
    """The file, its profile, and the pairs: the largest number that a probe scored heads on."""
    profiles = dict.fromkeys(table.profile for table in tables)
    said = join(PROFILES.get(profile, profile) for profile in profiles)
    scored = [table for table in tables if table.scores] or tables
    largest = max(scored, key=lambda table: table.pairs.n_pairs or 0, default=None)
    pairs, where = (0, "") if largest is None else (largest.pairs.n_pairs or 0, largest.pairs.name)
    return Text(
        f"{name}：{said.zh}研究，{where} 的至多 {pairs:,} 对",
        f"{name}: {said.en} study, up to {pairs:,} pairs of {where}",
    )
