"""What is known of a model's heads: from a run, from the file beside its weights, or scored here on few pairs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.engine import sweep
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import with_plain
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import QtBertError, RunFolderError
from qt_bert.figures import known
from qt_bert.files import sha256_file
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.work import Job, SharedScorer
from qt_bert.models.folder import HEADS
from qt_bert.models.heads import Head, names_of
from qt_bert.probes.focus import layer_of
from qt_bert.probes.matching_cells import DIRECTIONS, DRAWS
from qt_bert.probes.matching_scores import K as MATCHING
from qt_bert.probes.matching_scores import score_heads
from qt_bert.probes.order import OFFSETS, order_scores
from qt_bert.probes.order import K as ORDER
from qt_bert.probes.registry import probe_named
from qt_bert.probes.streams import gathered
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import HeadsFile, HeadTable, head_tables, rounded
from qt_bert.results.probe import PairsRef, Stability
from qt_bert.run.folder import RunFolder, read_probes
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, TEST, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text, listed

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

    def table(self, probe: str) -> HeadTable | None:
        """The table of one probe, where it ran."""
        return next((table for table in self.tables if table.probe == probe), None)


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
    said = listed(PROFILES.get(profile, profile) for profile in profiles)
    scored = [table for table in tables if table.scores] or tables
    largest = max(scored, key=lambda table: table.pairs.n_pairs or 0, default=None)
    pairs, where = (0, "") if largest is None else (largest.pairs.n_pairs or 0, largest.pairs.name)
    return Text(
        f"{name}：{said.zh}研究，{where} 的至多 {pairs:,} 对",
        f"{name}: {said.en} study, up to {pairs:,} pairs of {where}",
    )


# Scored here by the probes' own functions: nothing is tested, the best of the order are named.


PAIRS, EFFECT_PAIRS = 64, 24
"""Pairs of each of the two splits that ship; those of dev on which every head is left out alone."""
BATCH_TOKENS = 384
"""Tokens that are computed at once: visitors wait for them."""
STEPS = {
    "matching": Text("词的匹配", "term matching"),
    "order": Text("语序", "word order"),
    "redundancy": Text("逐个去掉每个头", "leaving out each head"),
}
"""What is computed, by its probe, in words."""

_HERE: WeakKeyDictionary[Inspected, Job[Studied]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def begin_study(inspected: Inspected) -> Job[Studied]:
    """The study of a model that is under way or done, or a new one, for every visitor."""
    heads = len(inspected.shape.all_heads) if inspected.classifies else -1
    units = (1 + DRAWS + 2) * 2 * PAIRS + (1 + heads) * EFFECT_PAIRS
    with _LOCK:
        job = _HERE.get(inspected)
        if job is None or not (job.goes_on or job.result):
            job = inspected.worker.start(lambda it: study_here(inspected, it), units)
            _HERE[inspected] = job
        return job


def computed_here(inspected: Inspected) -> Studied | None:
    """What was computed in this process for a model, by any visitor."""
    job = _HERE.get(inspected)
    return None if job is None else job.result


def study_here(inspected: Inspected, job: Job[Studied]) -> Studied:
    """Score every head on few of the pairs that ship; `job` counts texts run.

    Two tables of what heads look at (matching, order), and how far each head's absence moves the
    grades (redundancy), which a model without grades lacks. The sets are those that the probes'
    own rules choose. Raises Stopped.
    """
    shape, scorer = inspected.shape, SharedScorer(inspected.scorer, inspected.lock, BATCH_TOKENS)
    dev, test = (_pairs(inspected, split) for split in (DEV, TEST))
    pairs, readers = [*dev, *test], layer_of(shape)

    job.advance(0, "matching")
    queries = {pair.query for pair in pairs}
    matching = score_heads(scorer, pairs, inspected.segmenter, queries, shown=job)
    columns = {"score": matching.score}
    columns |= {name: matching.ratio()[..., place] for place, name in enumerate(DIRECTIONS)}
    low = [head for head in shape.all_heads if head.layer < readers]
    sets = {
        "matching": matching.best(_at_most(MATCHING, matching.score.size)),
        "matching_below": matching.best(_at_most(MATCHING, len(low)), low),
    }
    tables = [_table("matching", inspected, pairs, columns, sets)]

    job.advance(0, "order")
    order = order_scores(scorer, pairs, seed=0, tokens=BATCH_TOKENS, shown=job)
    offsets = np.where(np.isfinite(order.score), np.array(OFFSETS)[order.offset], np.nan)
    columns = {"score": order.score, "offset": offsets}
    columns |= {"identity": order.identity, "weight": order.weight}
    sets = {"order": order.best(_at_most(ORDER, order.score.size))}
    tables.append(_table("order", inspected, pairs, columns, sets))

    if inspected.classifies:
        job.advance(0, "redundancy")
        few = spread_over_queries(dev, EFFECT_PAIRS)
        variants = with_plain(single(shape, lambda heads: HeadMask(tuple(heads))))
        batches = scorer.batches([(pair.query, pair.title) for pair in few], BATCH_TOKENS)
        swept = sweep(scorer.encoder, batches, variants, tokens=BATCH_TOKENS, shown=job)
        logits = gathered(swept, len(few))["logits"]
        effects = Effects(logits, few, inspected.labels, resamples=0, draws=0)
        columns = {}
        for name in ("kl", "log_loss"):
            if effects.base(name) is not None:
                moved = [effects.change(row, name) for row in range(1, len(variants))]
                columns[name] = shape.spread([np.nan if one is None else one for one in moved])
        largest = shape.spread(np.abs(logits[1:] - logits[0]).mean(axis=(1, 2)))
        cost = columns.pop("log_loss", columns.get("kl", largest))[readers]
        worst = int(np.argmax(np.nan_to_num(cost, nan=-np.inf)))
        sets = {"reader": [Head(readers, worst)] if cost[worst] > 0 else []}
        tables.append(_table("redundancy", inspected, few, columns, sets, (DEV,)))
    origin = Text(
        f"在这里用自带的 {len(pairs)} 对算出，未经检验",
        f"computed here on {len(pairs)} pairs that ship, untested",
    )
    return Studied(tables=tuple(sorted(tables, key=lambda one: one.order)), origin=origin)


def _pairs(inspected: Inspected, split: str) -> list[Pair]:
    """Few of many queries; without labels where the model cannot be judged by those that ship."""
    path, options = shipped(split), ReaderOptions()
    try:
        pairs, _ = graded_pairs(path, options, inspected.labels)
    except QtBertError:
        pairs = [replace(pair, label=None, grades=None) for pair in options.open(path)]
    return spread_over_queries(pairs, PAIRS)


def _at_most(k: int, heads: int) -> int:
    """As the probes choose: a quarter of the heads at most, and at least one."""
    return min(k, max(1, heads // 4))


def _table(
    probe: str,
    inspected: Inspected,
    pairs: Sequence[Pair],
    columns: Mapping[str, FloatArray],
    sets: Mapping[str, Iterable[Head]],
    splits: Sequence[str] = (DEV, TEST),
) -> HeadTable:
    """The table of a probe: scores [layers, heads] by name, made on `pairs` of `splits`."""
    paths, declared = [shipped(split) for split in splits], probe_named(probe)
    heads = inspected.shape.all_heads
    return HeadTable(
        probe=probe,
        title=declared.title,
        order=declared.order,
        profile="here",
        pairs=PairsRef(
            name=" + ".join(path.name for path in paths),
            sha256=hashlib.sha256("".join(map(sha256_file, paths)).encode()).hexdigest(),
            n_pairs=len(pairs),
            n_queries=len({pair.query for pair in pairs}),
        ),
        summary=declared.question,
        sets={name: names_of(some) for name, some in sets.items()},
        scores=tuple(columns),
        heads=names_of(heads),
        values=tuple(
            tuple(rounded(known(float(column[head]))) for column in columns.values())
            for head in heads
        ),
    )
