"""The heads of a model that nobody studied, scored here on few pairs by the probes' functions."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
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
from qt_bert.errors import QtBertError
from qt_bert.figures import known
from qt_bert.files import sha256_file
from qt_bert.inspection.inspected import Inspected, SmallBatches
from qt_bert.inspection.studied import Studied, keep_here
from qt_bert.inspection.turns import Background, Job
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
from qt_bert.progress import Progress, silent
from qt_bert.results.heads import HeadTable, rounded
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.shipped import DEV, TEST, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

# A long piece of work in slices: whenever it reports progress, visitors go first.


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


# The few pairs that heads are scored on here, and the tables made of the scores.


PAIRS = 64
"""Pairs of each of the two splits that ship."""
PROFILE = "here"
SLICE_TOKENS = 384
"""Tokens that are computed at once: what a slice of the job has time for."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A model, the parts of the work, and pairs of the splits that ship."""

    inspected: Inspected
    parts: Parts

    @cached_property
    def scorer(self) -> Scorer:
        """The model's, in batches that fit into a slice."""
        return SmallBatches(self.inspected.scorer, SLICE_TOKENS)

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
    with sample.parts.part("matching", (1 + DRAWS) * len(pairs)) as shown:
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
    with sample.parts.part("order", 2 * len(pairs)) as shown:
        found = order_scores(sample.scorer, pairs, seed=0, tokens=SLICE_TOKENS, shown=shown)
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
    with sample.parts.part("boundary", units) as shown:
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
    with sample.parts.part("focus", len(pairs)) as shown:
        found = stream(sample.scorer, texts, [rows], shown=shown)[CLS_ROW][0]
    mean = means(by_query(found, [pair.query for pair in pairs]))
    columns = {name: mean[..., place] for place, name in enumerate(QUANTITIES)}
    return sample.table("focus", pairs, columns, sets)


def shift(sample: Sample, base: Inspected) -> HeadTable:
    """How far each head's attention moved since `base`."""
    one, pairs = sample.inspected, sample.dev
    with sample.parts.part("shift", len(pairs)) as shown:
        seen = compare(base.scorer.encoder, sample.scorer, pairs, one.segmenter, shown=shown)
    columns = {name: means(seen.alike(name)) for name in ("js_distance", "cosine")}
    for when in ("before", "after"):
        columns[f"{WEIGHTS[0]}_{when}"] = means(seen.weight(when, WEIGHTS[0]))
    return sample.table("shift", pairs, columns, {}, (DEV,))


def effects(sample: Sample) -> tuple[HeadTable, tuple[Head, ...]]:
    """How far each head's absence moves the grades; and the reader: whose absence costs most."""
    pairs = spread_over_queries(sample.dev, EFFECT_PAIRS)
    variants = with_plain(single(sample.shape, lambda heads: HeadMask(tuple(heads))))
    with sample.parts.part("redundancy", len(variants) * len(pairs)) as shown:
        batches = sample.scorer.batches(_texts(pairs), SLICE_TOKENS)
        swept = sweep(sample.scorer.encoder, batches, variants, tokens=SLICE_TOKENS, shown=shown)
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


# The heads of a model that nobody studied: scored here, on few pairs, by the probes' own functions.
#
# Nothing is tested: heads are put in order and the best are named, without intervals or q.


SHARES = {"matching": 35, "order": 10, "boundary": 10, "shift": 10, "redundancy": 30, "focus": 5}
"""What is computed, by its probe, and its share of the progress."""
TOTAL = sum(SHARES.values())


def study_here(
    inspected: Inspected, job: Job, shown: Progress = silent, *, base: Inspected | None = None
) -> Studied:
    """Score every head on 64 + 64 of the pairs that ship, in slices of `job`.

    `shown` counts up to `TOTAL`, with the name of the probe as its note. `base`, the model before
    fine-tuning, adds what tuning changed. A model without grades has no effects. Raises Stopped.
    """
    sample = Sample(inspected, Parts(job, shown, SHARES))
    inspected.segmenter.spans("词")  # its dictionary is read here, not within a slice
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


# Studies that are computed here: one for a model at a time, whoever started it; all may look in.


STEPS = {
    "matching": Text("词的匹配", "term matching"),
    "order": Text("语序", "word order"),
    "boundary": Text("词的边界", "word boundaries"),
    "shift": Text("与微调前比较", "comparing with the base"),
    "redundancy": Text("逐个去掉每个头", "leaving out each head"),
    "focus": Text("[CLS] 看什么", "what [CLS] looks at"),
}
"""What a study here is doing, by the notes of its progress."""

_RUNNING: WeakKeyDictionary[Inspected, Background[Studied]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def begin_study(inspected: Inspected, base: Inspected | None = None) -> Background[Studied]:
    """The study of a model that is under way, or a new one; its result is kept with the model."""
    pass

    def work(job: Job, shown: Progress) -> Studied:
        studied = study_here(inspected, job, shown, base=base)
        keep_here(inspected, studied)
        return studied

    with _LOCK:
        running = _RUNNING.get(inspected)
        if running is None or not running.goes_on:
            running = _RUNNING[inspected] = Background(inspected.turns, work, total=TOTAL)
        return running
