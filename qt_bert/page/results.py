"""The stored probe results on a model's heads: of a run, or of the file beside its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from qt_bert.errors import QtBertError, RunFolderError
from qt_bert.heads import Head, names_of
from qt_bert.models.folder import HEADS
from qt_bert.page.model import SharedModel
from qt_bert.probes.base import probes
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import HeadsFile, HeadTable, head_tables
from qt_bert.results.probe import Stability
from qt_bert.run.folder import RunFolder, read_probes
from qt_bert.text import Text, join

PROFILES = {"quick": Text("快速", "quick"), "full": Text("完整", "full")}


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadResults:
    """The head tables of one model; `origin` names their file, profile and number of pairs."""

    tables: tuple[HeadTable, ...]
    origin: Text

    @cached_property
    def sets(self) -> dict[str, tuple[Head, ...]]:
        """The sets that are shown, in a fixed order; heads in the order of the probe."""
        sets: dict[str, tuple[Head, ...]] = {}
        for table in self.tables:
            for name, heads in table.shown_sets.items():
                sets.setdefault(name, tuple(map(Head.parse, heads)))
        return {name: sets[name] for name in (*SETS, *sorted(sets.keys() - SETS)) if name in sets}

    @cached_property
    def stability(self) -> dict[str, Stability]:
        """How stable each set is, where its probe measured it."""
        return {k: v for table in reversed(self.tables) for k, v in table.stability.items()}

    def has(self, probe: str) -> bool:
        """Whether a probe's table is among them."""
        return any(table.probe == probe for table in self.tables)


def most_focused(sets: Mapping[str, Sequence[Head]], out: Sequence[Head]) -> Head | None:
    """The head with the largest focus in the layers above the heads `out`."""
    top = max((head.layer for head in out), default=-1)
    return next((head for head in sets.get("focused", ()) if head.layer > top), None)


def named_beside(results: HeadResults | None, heads: Sequence[Head]) -> frozenset[Head]:
    """The heads that the random ones must avoid: those named with `heads` by the same score."""
    tables = () if results is None else results.tables
    named = (
        set(map(Head.parse, table.sets.get(name, ())))
        for table in tables
        for name in ("named", "order_named")
    )
    return frozenset().union(*(of_score for of_score in named if of_score.issuperset(heads)))


def find_results(
    model: SharedModel, run: Path | None
) -> tuple[HeadResults | None, tuple[Text, ...]]:
    """The first results of these weights, of `run` or beside the weights; and why others were refused."""
    refused: list[Text] = []
    beside = model.scorer.checkpoint.folder / HEADS
    for path in (run, beside if beside.is_file() else None):
        if path is None:
            continue
        try:
            return _read(path, model, of_run=path is run), tuple(refused)
        except QtBertError as error:
            refused.append(
                Text(f"没有采用 {path.name}：{error}", f"{path.name} was not taken: {error}")
            )
    return None, tuple(refused)


def _read(path: Path, model: SharedModel, *, of_run: bool) -> HeadResults:
    """The tables of this version's probes. Raises RunFolderError for another model's."""
    if of_run:
        results = read_probes(RunFolder.read(path))
        if not results:
            raise RunFolderError(f"{path}: no probe of this run is finished")
        tables, hashes = tuple(head_tables(results)), {result.model.sha256 for result in results}
    else:
        stored = HeadsFile.read(path)
        tables, hashes = stored.probes, {stored.model.sha256}
    if hashes != {model.sha256}:
        raise RunFolderError(
            f"{path} is of other weights than {model.name}; run `qt-bert report` for this model"
        )
    here = {probe.name for probe in probes()}
    tables = tuple(table for table in tables if table.probe in here)
    known = set(names_of(model.shape.all_heads))
    for table in tables:
        for head in table.every:
            if head not in known:
                raise RunFolderError(f"{path} names {head}, which {model.name} does not have")
    name = path.name if of_run else f"{path.parent.name}/{path.name}"
    return HeadResults(tables=tables, origin=_origin(tables, name))


def _origin(tables: Sequence[HeadTable], name: str) -> Text:
    """The file, its profile, and the largest number of pairs that a probe scored heads on."""
    profiles = dict.fromkeys(table.profile for table in tables)
    profile = join(PROFILES.get(profile, profile) for profile in profiles)
    scored = [table for table in tables if table.scores] or tables
    largest = max(scored, key=lambda table: table.pairs.n_pairs or 0, default=None)
    pairs, file = (0, "") if largest is None else (largest.pairs.n_pairs or 0, largest.pairs.name)
    return Text(
        f"{name}：{profile.zh}研究，{file} 的至多 {pairs:,} 对",
        f"{name}: {profile.en} study, up to {pairs:,} pairs of {file}",
    )
