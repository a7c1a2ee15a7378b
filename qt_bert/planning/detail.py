"""More of the teacher and of one smaller shape: engines, threads and many titles, behaviour, worst slice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from qt_bert.data.cases import BETTER, read_cases, titles_then_others
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import has_bfloat16
from qt_bert.models.opening import open_checkpoint, reopened
from qt_bert.planning.export import export_onnx
from qt_bert.planning.export_session import EXPORTING, INT8_MODEL, MODEL, OnnxScorer, need
from qt_bert.planning.prune import CHECKED, plan_units, save_smaller
from qt_bert.planning.speeds import requests_of, seconds_of, torch_threads
from qt_bert.planning.task import PlanTask, Sample
from qt_bert.planning.trial import trial_folder
from qt_bert.probes.behaviour import higher
from qt_bert.progress import note_once, progress
from qt_bert.results.frontier import Detail, Engine, Frontier, StudentShape, Timing
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.evaluate import automatic
from qt_bert.scoring.judge import PairScorer, judge_logits, ranking_scores
from qt_bert.shipped import BEHAVIOURS, shipped, ships
from qt_bert.stats.evaluation import errors_in_slices

THRICE = 1 / 3
"""Without a recommendation the best shape of at most this share of the teacher's latency is detailed."""

TITLES, THREADS = (10, 100), (1, 2)
FEWER = 4
"""Queries with 100 titles are fewer by this factor."""


def details(task: PlanTask, frontier: Frontier) -> Iterator[Detail]:
    """The teacher, then the recommended shape, or without one the best that is three times as fast.

    The weights are those of the shape's longest trial. Nothing where `task.effort` times no engine, and for
    models on other devices than the CPU.
    """
    teacher, *smaller = frontier.rows
    fast = (row for row in smaller if row.latency.value <= THRICE)
    row = frontier.row_of(frontier.recommended) or next(fast, frontier.rows[-1])
    if not task.effort.engines or not task.scorer.on_cpu or row is teacher:
        return
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        plan, steps = frontier.plan_of(row.shape), row.trial[-1].steps if row.trial else 0
        student = trial_folder(task, plan, steps)
        if not row.trial:
            student = save_smaller(work / "s", task.pruned(plan.kept, plan_units(plan)).checkpoint)
        opened = {
            teacher.shape: (task.scorer.exact().checkpoint, 0),
            row.shape: (open_checkpoint(student, compact=True), steps),
        }
        engines = {
            shape: _engines(task, checkpoint, work / f"onnx-{shape}")
            for shape, (checkpoint, _) in opened.items()
        }
        timings = list(_timings(task, engines))
        for shape, (checkpoint, steps) in opened.items():
            of_shape = tuple(timing for timing in timings if timing.shape == shape)
            scorer = Scorer(checkpoint, max_length=task.scorer.tokenizer.max_length)
            yield _detail(task, shape, scorer, steps, of_shape)


Engines = dict[Engine, Callable[[int], PairScorer]]
"""Engine → a scorer on so many threads."""


def _engines(task: PlanTask, checkpoint: Checkpoint, out: Path) -> Engines:
    """What can run the checkpoint here: torch by dtype, and ONNX, checked against torch."""
    most = task.scorer.tokenizer.max_length
    whole = Scorer(checkpoint, max_length=most)
    engines: Engines = {"torch float32": lambda threads: whole}
    if has_bfloat16():
        half = reopened(checkpoint, dtype="bfloat16", compact=True)
        short = Scorer(half, max_length=most)
        engines["torch bfloat16"] = lambda threads: short
    try:
        need(EXPORTING)
        ref, pairs = task.discovery.ref, task.discovery.pairs[:CHECKED]
        export_onnx(checkpoint, out, int8_on=Sample.of(ref.name, ref.sha256, pairs))
        engines["ONNX"] = lambda threads: OnnxScorer(out / MODEL, threads=threads, max_length=most)
        engines["ONNX int8"] = lambda threads: OnnxScorer(
            out / INT8_MODEL, threads=threads, max_length=most
        )
    except (ArgumentError, CheckpointError):  # not installed, or not to be traced
        pass
    except EquivalenceError as error:
        note_once(f"{error}; engines are compared without ONNX")
    return engines


def _timings(task: PlanTask, engines: Mapping[StudentShape, Engines]) -> Iterator[Timing]:
    """Every engine of every shape in turns, by threads and titles."""
    listed = [(shape, engine, of) for shape in engines for engine, of in engines[shape].items()]
    with progress(len(THREADS) * len(TITLES), "engines", "settings") as shown:
        for threads in THREADS:
            scorers = [of(threads) for _, _, of in listed]
            for titles in TITLES:
                count = task.effort.engines // (FEWER if titles > min(TITLES) else 1)
                requests = requests_of(task.validation.texts, titles, count, task.seed)
                with torch_threads(threads):
                    times = 1000 * seconds_of(scorers, requests)
                p50s, p99s = np.percentile(times, (50, 99), axis=0).tolist()
                for (shape, engine, _), p50, p99 in zip(listed, p50s, p99s, strict=True):
                    yield Timing(
                        shape=shape, engine=engine, titles=titles, threads=threads,
                        p50=p50, p99=p99, requests=len(times),
                    )  # fmt: skip
                shown.advance(1)


def _detail(
    task: PlanTask, shape: StudentShape, scorer: Scorer, trained: int, timings: tuple[Timing, ...]
) -> Detail:
    labels, behaviour = scorer.settings.labels, None
    if ships(BEHAVIOURS):
        cases = read_cases(shipped(BEHAVIOURS)).listed
        texts = [(pair.query, pair.title) for pair in titles_then_others(cases)]
        titles, others = np.split(ranking_scores(scorer.logits(texts), labels), 2)
        better = np.array([case.relation == BETTER for case in cases])
        behaviour = float(higher(titles - others)[better].mean())
    pairs = task.validation.pairs
    judged = judge_logits(scorer.logits(task.validation.texts), pairs, labels)
    slices = () if judged.correct is None else errors_in_slices(judged, automatic(pairs))
    return Detail(
        shape=shape,
        trained=trained,
        timings=timings,
        behaviour=behaviour,
        worst_slice=slices[0].slice if slices else None,
        slice_errors=slices[0].inside if slices else None,
    )
