"""Which layers may read titles before the query comes: what that costs, and what it saves."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.effects import Effects
from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import Cut
from qt_bert.codec import encode, read_result
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.files import write_json
from qt_bert.models.card import Offline
from qt_bert.planning.budgets import in_time, in_turns, ratio, spread
from qt_bert.planning.runs import Changes, as_measured, changes_of, logits
from qt_bert.planning.task import OfflineEffort, PlanTask, Sample
from qt_bert.progress import Progress, progress
from qt_bert.results.plan import (
    MOST_LOST,
    OfflinePlan,
    OfflineRow,
    Ratio,
    StoredTitles,
    Timed,
)
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_states import (
    FORMATS,
    KEY,
    Format,
    StatesPart,
    encode_titles,
    hidden_of,
    pack,
    states_of,
    title_at,
)
from qt_bert.stats.arrays import FloatArray
from qt_bert.training.model import Measured

DECIDING = ("accuracy", "pairwise_accuracy", "spearman")
"""The metrics that may decide; the first that labels and model define does."""


def largest_free(rows: Sequence[OfflineRow], metric: str | None) -> int | None:
    """The largest number of layers that loses less than `MOST_LOST` of the metric, by the upper end
    of the interval on discovery; None where none does."""
    if metric is None:
        return None
    free = [row.layers for row in rows if row.may_lose(metric) < MOST_LOST]
    return max(free, default=None)


# Where titles begin and how long they may be, by the queries of discovery: as `train` chooses it.


@dataclass(frozen=True)
class Layout:
    """`offline` has no layers yet; `long` is the share of the pairs whose query reaches beyond."""

    offline: Offline
    long: float


def layout_of(tokenizer: PairTokenizer, sample: Sample) -> Layout | None:
    """Titles begin behind 95 % of the sample's queries, and may fill what is left of the length.

    None where that leaves no token for a title.
    """
    measured = Measured(sample.pairs, sample.ref.name, tokenizer)
    start = measured.title_start()
    left = tokenizer.max_length - start - tokenizer.title_separators
    if left < 1:
        return None
    return Layout(Offline(0, start, left), float((measured.before > start).mean()))


def before_titles(tokenizer: PairTokenizer, queries: Sequence[str]) -> np.ndarray:
    """How many tokens each query puts before a title [n]: the first token, its own, a separator."""
    encoded = tokenizer.encode([(query, "") for query in queries], offsets=False)
    return np.array([title_at(one) for one in encoded])


# A model read as an offline one, without retraining: what the rows of a plan are measured on.


CHECKED = 3
"""Pairs and cuts of the checks, which look at every pair of tokens of every head."""


@dataclass(frozen=True, eq=False)
class OfflineTask:
    """The rows to fill: `counts` are the numbers of layers, ascending."""

    task: PlanTask
    effort: OfflineEffort
    layout: Layout
    counts: tuple[int, ...]

    @cached_property
    def moved(self) -> Scorer:
        """The model with its titles moved, all layers as they are."""
        return self.reading(0)

    @cached_property
    def cuts(self) -> list[Variant]:
        """The block of each number of layers, as a variant of the masked loop."""
        return [_variant(count) for count in self.counts]

    @cached_property
    def discovery(self) -> Sample:
        """The pairs that the number of layers is chosen on."""
        return self._smaller(self.task.whole_discovery)

    @cached_property
    def validation(self) -> Sample:
        """The pairs that the rows are measured on."""
        return self._smaller(self.task.validation)

    def reading(self, layers: int) -> Scorer:
        """The model as an offline one of so many layers."""
        return read_as(self.task.scorer, replace(self.layout.offline, layers=layers))

    def check(self) -> Mapping[str, Any]:
        """Prove on a few pairs that titles are moved and the texts apart; the checks' figures.

        Raises EquivalenceError.
        """
        scorer = read_as(self.task.scorer.exact(), self.layout.offline)
        texts = self.validation.texts[:CHECKED]
        encoded = scorer.tokenizer.encode(texts, offsets=False)
        ends = [_variant(count) for count in sorted({self.counts[0], self.counts[-1]})]
        return check_equivalence(
            scorer.checkpoint, scorer.encoder, ends, encoded, seed=self.task.seed
        )

    def _smaller(self, sample: Sample) -> Sample:
        one_logit = self.task.scorer.checkpoint.settings.labels.logits == 1
        limit = self.effort.pairs
        return sample.smaller(limit, whole_queries=one_logit, seed=self.task.seed)


def read_as(scorer: Scorer, offline: Offline) -> Scorer:
    """`scorer` reading pairs as an offline model does; the weights, and their layout, are shared."""
    settings = replace(scorer.checkpoint.settings, offline=offline)
    encoder = copy.copy(scorer.encoder)
    encoder.offline = offline
    other = scorer.fresh()
    other.checkpoint = replace(scorer.checkpoint, settings=settings)
    other.encoder = encoder
    other.tokenizer = other.checkpoint.pair_tokenizer(scorer.tokenizer.max_length)
    return other


def counts_of(layers: int, rows: int | None) -> tuple[int, ...]:
    """About `rows` numbers of offline layers (None: each), half of the layers among them.

    None at all for a model of one layer: one layer at least must read both texts.
    """
    if rows is None or rows >= layers - 1:
        return tuple(range(1, layers))
    spread = {round(layers * step / (rows + 1)) for step in range(1, rows + 1)}
    return tuple(sorted(n for n in spread | {layers // 2} if 1 <= n < layers))


def _variant(count: int) -> Variant:
    cut = Cut("all", 0, count - 1)
    return Variant(cut.name, (cut,), "plan")


def stored_titles(moved: Scorer, titles: Iterable[str]) -> StoredTitles:
    """Bytes a title in the mean over the distinct ones, as an offline model cuts them.

    They are the same whatever the number of layers: a state for each token, separators included.
    """
    encoded = encode_titles(moved, list(dict.fromkeys(titles)))
    tokens, times = np.unique([len(one) - title_at(one) for one in encoded], return_counts=True)
    hidden = hidden_of(moved.checkpoint)

    def size(kind: Format) -> float:
        each = [_bytes_of(int(count), hidden, kind) for count in tokens]
        return float(np.average(each, weights=times))

    return StoredTitles(
        titles=len(encoded),
        tokens=float(np.average(tokens, weights=times)),
        size={kind: size(kind) for kind in FORMATS},
    )


def _bytes_of(tokens: int, hidden: int, kind: Format) -> int:
    """Bytes that a title of so many tokens takes, its key among them."""
    states = np.zeros((tokens, hidden), np.float32)
    return StatesPart(
        np.zeros(1, KEY), np.array([tokens], np.int32), lambda: pack(states, kind)
    ).bytes


# What reading the texts apart costs, without retraining: by moved positions, and with the block.


@dataclass(frozen=True, eq=False)
class Costs:
    """By metric, the paired changes against the model as it is: of moved positions alone, and by
    number of layers of both."""

    positions: Changes
    both: Mapping[int, Changes]


def costs_of(job: OfflineTask, sample: Sample, *, role: str, shown: Progress) -> Costs:
    """What the rows cost on `sample`.

    The block is a cut of the masked loop (`ablation.masks`). With the titles moved it is what an
    offline model does, and all numbers of layers share the layers below. The sweep is kept in the
    task's folder, under a name with the `role` of the sample; `shown` counts variants × pairs.
    """
    task, offline = job.task, job.layout.offline
    plain = logits(task.scorer, sample.pairs, [], work=None, name="plain", shown=shown)
    moved = logits(
        job.moved,
        sample.pairs,
        job.cuts,
        work=task.work,
        # A sweep's key knows the model by its folder, which says nothing of moved titles.
        name=f"offline-{role}-moved-{offline.title_start}-{offline.title_tokens}",
        shown=shown,
    )
    both = np.concatenate([plain, moved])
    labels = task.scorer.checkpoint.settings.labels
    effects = Effects(both, sample.pairs, labels, resamples=task.resamples, draws=0, seed=task.seed)
    defined = [metric for metric in task.metrics if effects.base(metric) is not None]
    found = [changes_of(effects, row, defined) for row in range(effects.n_variants)]
    _, positions, *of_both = found
    return Costs(positions, dict(zip(job.counts, of_both, strict=True)))


def runs_of(job: OfflineTask) -> int:
    """Variants × pairs that the rows take on both samples."""
    return (2 + len(job.counts)) * (len(job.discovery.pairs) + len(job.validation.pairs))


# How many times as fast a query is ranked where title states are read: in turns, in one run.


TITLES = 100
WARM_UP = 8
STATES: Format = "float16"
LEAST_QUERIES = 5


@dataclass(frozen=True, kw_only=True)
class Speedups:
    """One for each number of layers of the task, and how they were measured."""

    ratios: tuple[Ratio, ...]
    timed: Timed


@dataclass(frozen=True)
class _Stored:
    """The file of what was measured, by what it was asked of, so that a resumed plan has the same."""

    found: dict[str, Speedups]


def speedups(job: OfflineTask) -> Speedups | None:
    """One query over `TITLES` titles of validation, texts to logits: the model as it is against each
    number of layers, whose low layers read the query once and the titles never.

    Each query is timed once, so that none is known from before; the ratio is the median over queries,
    its interval a bootstrap over them. Weights do not matter to it. None where fewer than two queries
    end before the place where titles begin.
    """
    path = job.task.work / "offline_speeds.json"
    key = repr((job.layout.offline, job.counts, job.effort.queries))
    stored = read_result(_Stored, path) if path.exists() else _Stored({})
    if key not in stored.found:
        measured = _measure(job)
        if measured is None:
            return None
        stored.found[key] = measured
        write_json(path, encode(stored))
    return stored.found[key]


def _measure(job: OfflineTask) -> Speedups | None:
    task = job.task
    queries = _queries(job)
    if len(queries) < 2:
        return None
    titles = spread(dict.fromkeys(pair.title for pair in task.validation.pairs), TITLES, len)
    # Offline models of so many layers, with the states of these titles at hand.
    offline = [one.reading(states_of(one, titles, STATES)) for one in map(job.reading, job.counts)]
    scorers = [task.scorer.fresh(), *offline]
    first, *others = queries
    in_turns(scorers, [(first, title) for title in titles[-WARM_UP:]], 1, 0)
    with progress(len(others), "offline layers: speed", "queries") as shown:
        seconds = in_time(_turns(scorers, others, titles, shown), LEAST_QUERIES)
    return Speedups(
        ratios=tuple(ratio(seconds[:, 0] / one, task.seed) for one in seconds[:, 1:].T),
        timed=Timed(
            queries=len(seconds),
            titles=len(titles),
            whole_ms=float(1000 * np.median(seconds[:, 0])),
            states=STATES,
        ),
    )


def _turns(
    scorers: Sequence[Scorer], queries: Sequence[str], titles: Sequence[str], shown: Progress
) -> Iterator[FloatArray]:
    """Seconds of each scorer for one query after the other."""
    for turn, query in enumerate(queries):
        yield in_turns(scorers, [(query, title) for title in titles], 1, turn)[0]
        shown.advance()


def _queries(job: OfflineTask) -> list[str]:
    """Queries of validation that end before the place where titles begin: one to warm up, then those
    to be timed, of all lengths, in no order of them."""
    queries = list(dict.fromkeys(pair.query for pair in job.task.validation.pairs))
    before = before_titles(job.task.scorer.tokenizer, queries)
    start = job.layout.offline.title_start
    fitting = [query for query, tokens in zip(queries, before, strict=True) if tokens <= start]
    chosen = spread(fitting, 1 + job.effort.queries, len)
    return [chosen[i] for i in np.random.default_rng(job.task.seed).permutation(len(chosen))]


# The rows of a plan for layers that read titles before the query comes.


def offline_plan(task: PlanTask) -> OfflinePlan:
    """A row a number of offline layers, and the number chosen.

    Finished sweeps and times lie in `task.work`. A model without rows has the reason for it. Raises
    EquivalenceError where a block is not where it should be.
    """
    layers = task.form.layers
    effort = task.effort.offline or OfflineEffort()
    counts = counts_of(layers, effort.rows)
    if task.scorer.checkpoint.offline is not None:
        return OfflinePlan(layers=layers, reason="offline")
    if "offline" in task.scorer.checkpoint.family.lacks():
        return OfflinePlan(layers=layers, reason="family")
    if not counts:
        return OfflinePlan(layers=layers, reason="one layer")
    layout = layout_of(task.scorer.tokenizer, task.whole_discovery)
    if layout is None:
        return OfflinePlan(layers=layers, reason="no room")
    job = OfflineTask(task, effort, layout, counts)
    guards = job.check()
    with progress(runs_of(job), "offline layers", "runs") as shown:
        chosen_on = costs_of(job, job.discovery, role="discovery", shown=shown)
        measured = costs_of(job, job.validation, role="validation", shown=shown)
    timed = speedups(job)
    rows = tuple(
        OfflineRow(
            layers=count,
            both=as_measured(measured.both[count]),
            discovery=as_measured(chosen_on.both[count]),
            speed=None if timed is None else timed.ratios[place],
        )
        for place, count in enumerate(counts)
    )
    metric = next((one for one in DECIDING if one in chosen_on.positions), None)
    return OfflinePlan(
        layers=layers,
        title_start=layout.offline.title_start,
        title_tokens=layout.offline.title_tokens,
        long_queries=layout.long,
        discovery=job.discovery.ref,
        validation=job.validation.ref,
        metric=metric,
        chosen=largest_free(rows, metric),
        retrain=layers // 2,
        positions=as_measured(measured.positions),
        rows=rows,
        titles=stored_titles(job.moved, [pair.title for pair in task.whole_discovery.pairs]),
        timed=None if timed is None else timed.timed,
        guards=guards,
    )
