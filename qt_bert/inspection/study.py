"""What is known of a model's heads: from a run, from the file beside its weights, or scored here on few pairs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from qt_bert.models.heads import Head, Shape, names_of
from qt_bert.probes.boundary import (
    LEAST_BALANCED,
    LEAST_DECISIONS,
    asked_of,
    balanced_of,
    calibrate,
    decisions_of,
    weights_of,
)
from qt_bert.probes.focus import CLS_ROW, QUANTITIES, Places, cls_row, layer_of
from qt_bert.probes.matching_cells import DIRECTIONS, DRAWS
from qt_bert.probes.matching_scores import K as MATCHING
from qt_bert.probes.matching_scores import score_heads
from qt_bert.probes.naming import LEAST_WEIGHT, by_query, means, ranked
from qt_bert.probes.order import OFFSETS, order_scores
from qt_bert.probes.order import K as ORDER
from qt_bert.probes.registry import probes
from qt_bert.probes.shift_maps import WEIGHTS, compare
from qt_bert.probes.streams import gathered, stream
from qt_bert.progress import Progress
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import HeadsFile, HeadTable, head_tables, rounded
from qt_bert.results.probe import PairsRef, Stability
from qt_bert.run.folder import RunFolder, read_probes
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, TEST, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

_HERE: WeakKeyDictionary[Inspected, Studied] = WeakKeyDictionary()
"""What was computed in this process; it goes with its model."""

PROFILES = {"quick": Text("快速", "quick"), "full": Text("完整", "full")}


@dataclass(frozen=True, eq=False, kw_only=True)
class Studied:
    """The head tables of one model. `origin` says where they come from, and on how many pairs.

    `tested` is False for those computed here: no claim was tested, and no head has an interval.
    """

    tables: tuple[HeadTable, ...]
    origin: Text
    tested: bool = True

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


class Looked(NamedTuple):
    """What was found, if anything, and in words why results that are there were not taken."""

    studied: Studied | None
    refused: tuple[Text, ...] = ()


def computed_here(inspected: Inspected) -> Studied | None:
    """What was computed in this process for a model, by any visitor."""
    return _HERE.get(inspected)


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
    )
    return studied, models.pop()


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


# The few pairs that heads are scored on here, and the tables made of the scores.


PAIRS = 64
"""Pairs of each of the two splits that ship."""
PROFILE = "here"
BATCH_TOKENS = 384
"""Tokens that are computed at once: visitors wait for them."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A model, the job that reports, and pairs of the splits that ship."""

    inspected: Inspected
    job: Job[Studied]

    @cached_property
    def scorer(self) -> Scorer:
        """The model's, in small batches under the lock."""
        return SharedScorer(self.inspected.scorer, self.inspected.lock, BATCH_TOKENS)

    @contextmanager
    def part(self, name: str, units: int) -> Iterator[Progress]:
        """The progress of one part, of some `units`, told as its share of the whole."""
        part = _Part(self.job, name, SHARES[name], units)
        yield part
        part.reach(1.0)

    @cached_property
    def dev(self) -> list[Pair]:
        """Few pairs of many queries."""
        return _pairs(self.inspected, DEV)

    @cached_property
    def test(self) -> list[Pair]:
        """Few pairs of many other queries."""
        return _pairs(self.inspected, TEST)

    @property
    def pairs(self) -> list[Pair]:
        """Both."""
        return [*self.dev, *self.test]

    @property
    def shape(self) -> Shape:
        """The model's layers and heads."""
        return self.inspected.shape

    def table(
        self,
        probe: str,
        pairs: Sequence[Pair],
        columns: Mapping[str, FloatArray],
        sets: Mapping[str, Iterable[Head]],
        splits: Sequence[str] = (DEV, TEST),
    ) -> HeadTable:
        """The table of a probe: scores [layers, heads] by name, made on `pairs` of `splits`."""
        declared = next(one for one in probes() if one.name == probe)
        return HeadTable(
            probe=probe,
            title=declared.title,
            order=declared.order,
            profile=PROFILE,
            pairs=_ref(pairs, splits),
            summary=declared.question,
            sets={name: names_of(heads) for name, heads in sets.items()},
            scores=tuple(columns),
            heads=names_of(self.shape.all_heads),
            values=tuple(
                tuple(rounded(known(float(column[head]))) for column in columns.values())
                for head in self.shape.all_heads
            ),
        )


def _pairs(inspected: Inspected, split: str) -> list[Pair]:
    """Without labels where the model cannot be judged by those that ship."""
    path, options = shipped(split), ReaderOptions()
    try:
        pairs, _ = graded_pairs(path, options, inspected.labels)
    except QtBertError:
        pairs = [replace(pair, label=None, grades=None) for pair in options.open(path)]
    return spread_over_queries(pairs, PAIRS)


def _ref(pairs: Sequence[Pair], splits: Sequence[str]) -> PairsRef:
    paths = [shipped(split) for split in splits]
    hashes = [sha256_file(path) for path in paths]
    both = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return PairsRef(
        name=" + ".join(path.name for path in paths),
        sha256=both,
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
    )


# Scores of every head on a sample, one function a probe.


EFFECT_PAIRS = 24
"""Pairs on which every head is left out alone."""


def matching(sample: Sample) -> tuple[HeadTable, list[Head]]:
    """The scores of matching, and the best heads below the readers' layer."""
    one, pairs = sample.inspected, sample.pairs
    queries = {pair.query for pair in pairs}
    with sample.part("matching", (1 + DRAWS) * len(pairs)) as shown:
        scores = score_heads(sample.scorer, pairs, one.segmenter, queries, shown=shown)
    ratio = scores.ratio()
    columns = {"score": scores.score}
    columns |= {name: ratio[..., place] for place, name in enumerate(DIRECTIONS)}
    low = [head for head in sample.shape.all_heads if head.layer < layer_of(sample.shape)]
    best = scores.best(_at_most(MATCHING, scores.score.size))
    below = scores.best(_at_most(MATCHING, len(low)), low)
    return sample.table("matching", pairs, columns, {"matching": best}), below


def order(sample: Sample) -> HeadTable:
    """Lifts on shuffled characters, and the best heads that follow places."""
    pairs = sample.pairs
    with sample.part("order", 2 * len(pairs)) as shown:
        found = order_scores(sample.scorer, pairs, seed=0, tokens=BATCH_TOKENS, shown=shown)
    offsets = np.where(np.isfinite(found.score), np.array(OFFSETS)[found.offset], np.nan)
    columns = {
        "score": found.score,
        "offset": offsets,
        "identity": found.identity,
        "weight": found.weight,
    }
    best = found.best(_at_most(ORDER, found.score.size))
    return sample.table("order", pairs, columns, {"order": best})


def boundary(sample: Sample) -> HeadTable:
    """Heads read on dev, heard on test, against the segmenter."""
    scorer, cut = sample.scorer, sample.inspected.segmenter
    asked = asked_of(sample.dev)
    new = asked_of(sample.test, {one.text for one in asked})
    known_ones = decisions_of(scorer.tokenizer, asked, least=LEAST_DECISIONS)
    others = decisions_of(scorer.tokenizer, new)
    units = len(known_ones.pairs) + len(others.pairs)
    with sample.part("boundary", units) as shown:
        seen, heard = (weights_of(scorer, one, shown) for one in (known_ones, others))
    labels, truth = (
        one.labels(lambda text: {end for _, end in cut.spans(text)}) for one in (known_ones, others)
    )
    calibrated = calibrate(seen, known_ones, labels, shifts=0, seed=0)
    columns = {
        "balanced": balanced_of(calibrated.say(heard), truth),
        "discovery_balanced": calibrated.named.score,
        "rule_balanced": balanced_of(heard.rule(), truth),
        "weight_on_text": heard.own,
    }
    score = columns["balanced"]
    best = [h for h in ranked(score) if score[h] >= LEAST_BALANCED and heard.own[h] >= LEAST_WEIGHT]
    return sample.table("boundary", sample.test, columns, {"boundary": best}, (TEST,))


def focus(sample: Sample, sets: Mapping[str, Iterable[Head]]) -> HeadTable:
    """[CLS]'s rows; `sets` are those that the page expects of this probe."""
    one, pairs = sample.inspected, sample.pairs
    texts = _texts(pairs)
    rows = cls_row(range(sample.shape.layers), Places(texts, one.segmenter))
    with sample.part("focus", len(pairs)) as shown:
        found = stream(sample.scorer, texts, [rows], shown=shown)[CLS_ROW][0]
    mean = means(by_query(found, [pair.query for pair in pairs]))
    columns = {name: mean[..., place] for place, name in enumerate(QUANTITIES)}
    return sample.table("focus", pairs, columns, sets)


def shift(sample: Sample, base: Inspected) -> HeadTable:
    """How far each head's attention moved since `base`."""
    one, pairs = sample.inspected, sample.dev
    with sample.part("shift", len(pairs)) as shown:
        seen = compare(base.scorer.encoder, sample.scorer, pairs, one.segmenter, shown=shown)
    columns = {name: means(seen.alike(name)) for name in ("js_distance", "cosine")}
    for when in ("before", "after"):
        columns[f"{WEIGHTS[0]}_{when}"] = means(seen.weight(when, WEIGHTS[0]))
    return sample.table("shift", pairs, columns, {}, (DEV,))


def effects(sample: Sample) -> tuple[HeadTable, tuple[Head, ...]]:
    """How far each head's absence moves the grades; and the reader: whose absence costs most."""
    pairs = spread_over_queries(sample.dev, EFFECT_PAIRS)
    variants = with_plain(single(sample.shape, lambda heads: HeadMask(tuple(heads))))
    with sample.part("redundancy", len(variants) * len(pairs)) as shown:
        batches = sample.scorer.batches(_texts(pairs), BATCH_TOKENS)
        swept = sweep(sample.scorer.encoder, batches, variants, tokens=BATCH_TOKENS, shown=shown)
        logits = gathered(swept, len(pairs))["logits"]
    changes = Effects(logits, pairs, sample.inspected.labels, resamples=0, draws=0)
    columns = {
        name: sample.shape.spread(
            [_number(changes.change(row, name)) for row in range(1, len(variants))]
        )
        for name in ("kl", "log_loss")
        if changes.base(name) is not None
    }
    moved = sample.shape.spread(np.abs(logits[1:] - logits[0]).mean(axis=(1, 2)))
    cost = columns.pop("log_loss", columns.get("kl", moved))
    layer = layer_of(sample.shape)
    worst = int(np.argmax(np.nan_to_num(cost[layer], nan=-np.inf)))
    reader = (Head(layer, worst),) if cost[layer, worst] > 0 else ()
    return sample.table("redundancy", pairs, columns, {}, (DEV,)), reader


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _at_most(k: int, heads: int) -> int:
    """As the probes choose: a quarter of the heads at most, and at least one."""
    return min(k, max(1, heads // 4))


def _texts(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in pairs]


# What is computed here: nothing is tested, heads are put in order and the best are named.

SHARES = {"matching": 35, "order": 10, "boundary": 10, "shift": 10, "redundancy": 30, "focus": 5}
"""What is computed, by its probe, and its share of the progress in per cent."""
STEPS = {
    "matching": Text("词的匹配", "term matching"),
    "order": Text("语序", "word order"),
    "boundary": Text("词的边界", "word boundaries"),
    "shift": Text("与微调前比较", "comparing with the base"),
    "redundancy": Text("逐个去掉每个头", "leaving out each head"),
    "focus": Text("[CLS] 看什么", "what [CLS] looks at"),
}
"""The same in words."""


class _Part:
    """One part's progress, `units` long, told as its `share` of the whole."""

    def __init__(self, job: Job[Studied], name: str, share: int, units: int) -> None:
        self._job, self._name, self._share, self._units = job, name, share, max(1, units)
        self._done = self._told = 0
        job.advance(0, name)

    def advance(self, amount: int = 1, note: str = "") -> None:
        self._done += amount
        self.reach(self._done / self._units)

    def reach(self, part: float) -> None:
        """Tell that so much of the part is done, 0 to 1."""
        reached = int(self._share * min(1.0, part))
        self._job.advance(reached - self._told, self._name)
        self._told = reached


def study_here(inspected: Inspected, job: Job[Studied], base: Inspected | None = None) -> Studied:
    """Score every head on 64 + 64 of the pairs that ship, by the probes' own functions.

    `base`, the model before fine-tuning, adds what tuning changed. A model without grades has no
    effects. Raises Stopped.
    """
    sample = Sample(inspected, job)
    by_terms, below = matching(sample)
    tables = [by_terms, order(sample), boundary(sample)]
    if base is not None and base.shape == inspected.shape:
        tables.append(shift(sample, base))
    sets = {"matching_below": tuple(below)}
    if inspected.classifies:
        table, sets["reader"] = effects(sample)
        tables.append(table)
    tables.append(focus(sample, sets))
    pairs = len(sample.pairs)
    return Studied(
        tables=tuple(sorted(tables, key=lambda table: table.order)),
        origin=Text(
            f"在这里用自带的 {pairs} 对算出，未经检验",
            f"computed here on {pairs} pairs that ship, untested",
        ),
        tested=False,
    )


_RUNNING: WeakKeyDictionary[Inspected, Job[Studied]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def begin_study(inspected: Inspected, base: Inspected | None = None) -> Job[Studied]:
    """The study of a model that is under way, or a new one, for every visitor; the model keeps it."""

    def work(job: Job[Studied]) -> Studied:
        studied = _HERE[inspected] = study_here(inspected, job, base)
        return studied

    with _LOCK:
        running = _RUNNING.get(inspected)
        if running is None or not running.goes_on:
            running = _RUNNING[inspected] = inspected.worker.start(work, sum(SHARES.values()))
        return running
