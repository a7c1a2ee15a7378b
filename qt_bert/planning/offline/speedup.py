"""How many times as fast a query is ranked where title states are read: in turns, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.files import write_json
from qt_bert.planning.offline.layout import before_titles
from qt_bert.planning.offline.moved import OfflineTask
from qt_bert.planning.speed import in_time, in_turns, ratio
from qt_bert.progress import Progress, progress
from qt_bert.results.codec import encode, read_result
from qt_bert.results.offline import Timed
from qt_bert.results.plan_evidence import Ratio
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_states.computing import states_of
from qt_bert.scoring.title_states.quantising import Format

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
    path, key = job.task.work / "offline_speeds.json", _key(job)
    stored = read_result(_Stored, path) if path.exists() else _Stored({})
    if key not in stored.found:
        measured = _measure(job)
        if measured is None:
            return None
        stored.found[key] = measured
        write_json(path, encode(stored))
    return stored.found[key]


def _key(job: OfflineTask) -> str:
    return repr((job.layout.offline, job.counts, job.task.effort.offline.queries))


def _measure(job: OfflineTask) -> Speedups | None:
    task = job.task
    queries = _queries(job)
    if len(queries) < 2:
        return None
    titles = _spread(dict.fromkeys(pair.title for pair in task.validation.pairs), TITLES)
    scorers = [task.scorer.fresh(), *(_reading_states(job, n, titles) for n in job.counts)]
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
    chosen = _spread(fitting, 1 + job.task.effort.offline.queries)
    return [chosen[i] for i in np.random.default_rng(job.task.seed).permutation(len(chosen))]


def _spread(texts: Iterable[str], count: int) -> list[str]:
    """At most `count` of the texts, of all lengths alike."""
    ordered = sorted(texts, key=len)
    places = np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round()
    return [ordered[int(place)] for place in places]


def _reading_states(job: OfflineTask, layers: int, titles: Sequence[str]) -> Scorer:
    """The offline model of so many layers, with the states of these titles at hand."""
    scorer = job.reading(layers)
    return scorer.reading(states_of(scorer, titles, STATES))
