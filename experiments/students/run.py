"""Does a plan pay? Students of one size, trained alike, compared over seeds and queries.

python -m experiments.students.run --shape layers=4 --recipe RECIPE --data DATA --out runs/arms
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.cli.terminal import table
from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import one_line
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write, is_vacant, read_json, sha256_file, write_json
from qt_bert.models.folder import resolve_folder
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import IMITATION, DistillJob, Student, student_of_shape
from qt_bert.results.frontier import read_plan
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Plan
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits, read_outputs
from qt_bert.shipped import GRADED, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS
from qt_bert.training.batches import levels_of
from qt_bert.training.finetune import TuneSettings, run_tuning
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import PairSource, load_recipe, typed
from qt_bert.training.state import STATE_FILE, workspace_of

# The students: same size, same data, same steps.


PLAN, EVEN, GRADES, DOUBT = "plan", "even", "grades", "doubt"

SEEDS = {PLAN: 5, EVEN: 5, GRADES: 3, DOUBT: 5}
"""Runs of each arm: seeds 0, 1, …; runs of one seed see the data in one order."""


def arms_of(job: DistillJob) -> dict[str, DistillJob]:
    """The plan of `job` first, then its rivals, by name.

    Raises ArgumentError where the loss learns nothing from a teacher.
    """
    loss = job.loss or IMITATION
    if not loss.of_outputs:
        raise ArgumentError(
            "the arms are ways to learn from a teacher: give soft, mse or margin_mse a weight"
        )
    plan = job.student.plan
    alone = replace(loss, soft=0.0, mse=0.0, margin_mse=0.0)
    return {
        PLAN: job,
        EVEN: replace(job, student=replace(job.student, plan=even_plan(plan))),
        GRADES: replace(job, loss=alone, teacher=None),
    }


def order_arms(job: DistillJob, keep: int, out: Path) -> dict[str, DistillJob]:
    """The plan of `job` with `keep` of its unlabelled pairs, drawn at random, and its rival with those that the
    teacher doubts most, by the entropy of its grades; both are written below `out`.

    Raises ArgumentError where there are no more unlabelled pairs, and for a teacher of one output.
    """
    texts = [
        (pair.query, pair.title)
        for source in job.sources
        if source.unlabelled
        for pair in source.read()
    ]
    if not 0 < keep < len(texts):
        raise ArgumentError(f"--doubt {keep}: give fewer than the {len(texts):,} unlabelled pairs")
    scorer = Scorer(open_checkpoint(job.student.model))
    outputs = read_outputs(scorer.logits(texts), scorer.settings.labels)
    if outputs.probabilities is None:
        raise ArgumentError("--doubt: a teacher of one output has no doubt about its grade")
    p = outputs.probabilities
    entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(1)
    chosen = {
        PLAN: np.sort(np.random.default_rng(0).permutation(len(texts))[:keep]),
        DOUBT: np.sort(np.argsort(-entropy, kind="stable")[:keep]),
    }
    labelled, arms = tuple(one for one in job.sources if not one.unlabelled), {}
    for name, rows in chosen.items():
        path = out / "unlabelled" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["query\ttitle", *("\t".join(map(one_line, texts[row])) for row in rows)]
        with atomic_write(path) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
        sources = (*labelled, PairSource(path, unlabelled=True))
        arms[name] = replace(job, sources=sources)
    return arms


def even_plan(plan: Plan) -> Plan:
    """As many layers, heads and feed-forward units as `plan` keeps, all at even spacing.

    Heads and units are shared out evenly over the layers; where they do not divide, the lower layers
    have one more. Which units these are is for their gradient importance to say, as in a plan that
    names none.
    """
    teacher = plan.teacher
    count = len(plan.kept)
    # As of DistilBERT (Sanh et al. 2019), which starts from one layer out of two.
    layers = [place * teacher.layers // count for place in range(count)]
    heads = _shared(sum(len(one.heads) for one in plan.kept), count)
    units = _shared(sum(one.units or teacher.units for one in plan.kept), count)
    kept = tuple(
        KeptLayer(
            layer=layer,
            heads=tuple(place * teacher.heads // number for place in range(number)),
            units=None if width == teacher.units else width,
        )
        for layer, number, width in zip(layers, heads, units, strict=True)
    )
    return replace(plan, kept=kept, units={})


def _shared(total: int, parts: int) -> list[int]:
    """`total` as `parts` whole numbers that differ by at most one, larger ones first."""
    least, more = divmod(total, parts)
    return [least + (place < more) for place in range(parts)]


# Differences over seeds and queries together.


JUDGED = ("spearman", "qwk")
"""What arms are compared by: the order of the expected grades, and the grades themselves."""

SHOWN = (*JUDGED, "accuracy")

BySeed = Mapping[int, Judgements]
"""Seed → what its student gave, all on the same pairs."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The plan's metric less the `rival`'s, mean over `seeds` paired seeds, on the pairs called `on`.

    The interval is over seeds and queries together. `outcome` is `better` where it lies above 0.
    """

    rival: str
    on: str
    metric: str
    seeds: int
    plan_value: float
    rival_value: float
    difference: float
    ci_low: float | None
    ci_high: float | None
    outcome: str


def paired_differences(
    plan: BySeed,
    rival: BySeed,
    *,
    name: str,
    on: str,
    metrics: Sequence[str] = JUDGED,
    resamples: int = RESAMPLES,
) -> list[Difference]:
    """The plan's students against a rival's by each of the `metrics`, where it is defined.

    A resample draws seeds, and apart from these queries, with replacement; both arms see the same
    draw, and the difference is the mean over the drawn seeds. Resampling both factors of a crossed
    design apart is the pigeonhole bootstrap (Owen 2007, Annals of Applied Statistics 1), which is
    rather too wide than too narrow where both have many members. Of few seeds a plain resample is
    too narrow, by (n − 1) / n in variance; `over_seeds` makes up for that. What three or five seeds
    happen not to show remains unseen.
    """
    seeds = sorted(set(plan) & set(rival))
    found = []
    for metric in metrics:
        values = [
            resampled([arm[number] for number in seeds], metric, resamples) for arm in (plan, rival)
        ]
        if any(np.isnan(one[:, 0]).any() for one in values):
            continue
        ours, theirs = (float(one[:, 0].mean()) for one in values)
        samples = over_seeds(values[0][:, 1:] - values[1][:, 1:])
        low, high, _ = interval_or_reason(samples, plan[seeds[0]].n_queries)
        found.append(
            Difference(
                rival=name,
                on=on,
                metric=metric,
                seeds=len(seeds),
                plan_value=ours,
                rival_value=theirs,
                difference=ours - theirs,
                ci_low=low,
                ci_high=high,
                outcome=outcome_of(low, high),
            )
        )
    return found


def outcome_of(low: float | None, high: float | None) -> str:
    """The verdict of an interval of a difference."""
    if low is None or high is None or low <= 0 <= high:
        return "undecided"
    return "better" if low > 0 else "worse"


def resampled(judged: Sequence[Judgements], metric: str, resamples: int = RESAMPLES) -> FloatArray:
    """A metric of models judged on the same pairs, plain and under the same query weights.

    [models, 1 + R]; NaN where the metric is not defined for a model.
    """
    rows = []
    for one in judged:
        if METRICS[metric].refusal(one):
            rows.append(np.full(1 + resamples, np.nan))
            continue
        estimator = [METRICS[metric].estimator(one)]
        weights = bootstrap_weights(one.n_queries, resamples, 0, width=len(one))
        plain = resample(estimator, iter([np.ones((1, one.n_queries))]))
        rows.append(np.concatenate([plain, resample(estimator, weights)], axis=1)[0])
    return np.array(rows)


def over_seeds(differences: FloatArray) -> FloatArray:
    """Means over seeds drawn anew for each resample of the queries: [seeds, R] → [R].

    Their distance from the mean of all seeds is stretched by √(n / (n − 1)), so that they vary as
    much as the variance s² / n of a mean of n seeds requires (the rescaling of Rao & Wu 1988, Journal
    of the American Statistical Association 83).
    """
    count, resamples = differences.shape
    if count == 1:
        return differences[0]
    drawn = np.random.default_rng([0, 1]).integers(count, size=(count, resamples))
    plain, middle = np.take_along_axis(differences, drawn, axis=0).mean(0), differences.mean(0)
    return middle + (plain - middle) * np.sqrt(count / (count - 1))


# All arms trained, judged, and held against the plan; taken up after a kill.


ARMS_FILE, RUNS, LOGITS, TAUGHT = "arms.json", "runs", "logits", "taught"


def run_arms(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    *,
    validation: PairSource | None = None,
    seeds: Mapping[str, int] = SEEDS,
    doubt: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train every arm with its seeds under `out/runs`, judge them, and write `out/arms.json`.

    Seed s trains with `settings.seed` + s, which fixes the order of the data, and for all steps,
    whatever `settings.patience`. With `doubt` the arms are `order_arms` of so many pairs. A teacher of one output has no arm on grades alone. The logits of
    each run are kept in `out/logits/ARM-SEED.dev.npy` (float32 [pair, output], pairs in file order).
    The pairs of `validation` are for the end: given with `resume` to finished runs, they train
    nothing anew.

    Raises ArgumentError where `job` has no `dev` or nothing to learn from the teacher,
    RunFolderError where `out` holds anything, without a flag, and as `run_tuning`.
    """
    if job.dev is None:
        raise ArgumentError("the recipe names no [dev]: all arms are judged on the same pairs")
    labels = open_checkpoint(job.student.model).settings.labels
    named = {"dev": job.dev, **({} if validation is None else {"validation": validation})}
    # A fault of these is found before hours of training.
    files = {
        name: (one.file, one.read(levels=levels_of(labels), labelled=True))
        for name, one in named.items()
    }
    _open(out, resume=resume, overwrite=overwrite)
    if (source := job.outputs_of) is not None and not source.scores:
        (out / TAUGHT).mkdir(parents=True, exist_ok=True)
        job = replace(job, teacher=replace(source, store=out / TAUGHT))
    arms = arms_of(job) if doubt is None else order_arms(job, doubt, out)
    arms = {n: one for n, one in arms.items() if n != GRADES or labels.logits > 1}
    for arm, seed in _order(arms, seeds):
        folder = out / RUNS / f"{arm}-{seed}"
        own = replace(settings, patience=0, seed=settings.seed + seed)
        run_tuning(arms[arm], folder, own, resume=True)
        # What a run resumes from is some eight times its student, and there are many runs.
        (workspace_of(folder) / STATE_FILE).unlink(missing_ok=True)
    found = _judged(job, arms, seeds, files, out)
    write_json(out / ARMS_FILE, encode(found))
    return found


def _order(arms: Mapping[str, DistillJob], seeds: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Seed by seed: a work that is stopped has arms to compare."""
    for seed in range(max(seeds.values())):
        yield from ((arm, seed) for arm in arms if seed < seeds[arm])


def _open(out: Path, *, resume: bool, overwrite: bool) -> None:
    if is_vacant(out) or (resume and (out / RUNS).is_dir()):
        return
    if not overwrite:
        raise RunFolderError(
            f"{out} is not empty; --resume goes on with arms begun there, --overwrite starts anew"
        )
    for name in (RUNS, LOGITS, TAUGHT):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / ARMS_FILE).unlink(missing_ok=True)


def _judged(
    job: DistillJob,
    arms: Mapping[str, DistillJob],
    seeds: Mapping[str, int],
    files: Mapping[str, tuple[Path, list[Pair]]],
    out: Path,
) -> dict[str, Any]:
    """Every run on every file, and the plan against each rival."""
    judged: dict[tuple[str, str], dict[int, Judgements]] = {}
    for arm, seed in _order(arms, seeds):
        for name, (_, pairs) in files.items():
            run = f"{arm}-{seed}"
            found = judged_by(out / RUNS / run, pairs, out / LOGITS / f"{run}.{name}.npy")
            judged.setdefault((arm, name), {})[seed] = found
    facts = {
        (arm, seed): read_json(out / RUNS / f"{arm}-{seed}" / "training.json")
        for arm, seed in _order(arms, seeds)
    }
    teacher = job.student.model
    return {
        "teacher": job.student.plan.teacher,
        "steps": max(int(one["planned_steps"]) for one in facts.values()),
        "pairs": {
            name: {"name": file.name, "sha256": sha256_file(file)}
            for name, (file, _) in files.items()
        },
        "teacher_metrics": {
            name: _metrics(judged_by(teacher, pairs)) for name, (_, pairs) in files.items()
        },
        "arms": [
            {
                "name": name,
                "kept": one.student.plan.kept,
                "parameters": open_checkpoint(out / RUNS / f"{name}-0", compact=True).parameters,
            }
            for name, one in arms.items()
        ],
        "runs": [
            {
                "arm": arm,
                "seed": seed,
                "best_step": one["best_step"],
                "metrics": {name: _metrics(judged[arm, name][seed]) for name in files},
            }
            for (arm, seed), one in facts.items()
        ],
        "differences": [
            found
            for name in files
            for arm in arms
            if arm != PLAN
            for found in paired_differences(
                judged[PLAN, name], judged[arm, name], name=arm, on=name
            )
        ],
    }


def judged_by(model: Path, pairs: list[Pair], kept_in: Path | None = None) -> Judgements:
    """The judgements of the model in a folder, in float32; its logits go to `kept_in`."""
    checkpoint = open_checkpoint(model, compact=True)
    logits = Scorer(checkpoint).logits([(p.query, p.title) for p in pairs])
    if kept_in is not None:
        with atomic_write(kept_in) as temporary, open(temporary, "wb") as handle:
            np.save(handle, logits)
    return judge_logits(logits, pairs, checkpoint.settings.labels)


def _metrics(judged: Judgements) -> dict[str, float | None]:
    """Metric → its value; None where it is not defined."""
    return {name: METRICS[name].value(judged) for name in SHOWN}


# The command.


def rows_of(differences: Sequence[Difference]) -> list[tuple[str, ...]]:
    """The differences as rows of a table, its heading first."""
    rows: list[tuple[str, ...]] = [
        ("on", "rival", "metric", "plan", "rival's", "difference", "95 % interval", "")
    ]
    for one in differences:
        ends = "" if one.ci_low is None else f"[{one.ci_low:+.3f}, {one.ci_high:+.3f}]"
        values = f"{one.plan_value:.3f}", f"{one.rival_value:.3f}", f"{one.difference:+.3f}"
        rows.append((one.on, one.rival, one.metric, *values, ends, one.outcome))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    by = parser.add_mutually_exclusive_group(required=True)
    by.add_argument("--plan", type=Path)
    by.add_argument("--shape", help="layers=2, as of `qt-bert distill`")
    parser.add_argument("--recipe", type=Path, required=True, help="as of `qt-bert distill`")
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--model", help="the teacher [default: the checkpoint that ships]")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--validation", type=Path, help="graded pairs for the end")
    parser.add_argument(
        "--doubt",
        type=int,
        metavar="N",
        help="instead of the rivals: N unlabelled pairs that the teacher doubts against N drawn ones",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--overwrite", action="store_true")
    options = parser.parse_args(arguments)
    with one_line_faults():
        stored = load_recipe(options.recipe, options.data)
        teacher = resolve_folder(options.model or shipped(GRADED))
        values = {
            **stored.job,
            "student": Student(teacher, read_plan(options.plan))
            if options.plan
            else student_of_shape(options.shape, teacher, stored.dev),
            "sources": tuple(stored.pairs),
            "dev": stored.dev,
            "loss": LossWeights.read(None, stored.loss, IMITATION, f"{stored.where} [loss]"),
        }
        settings = {**stored.settings, "max_steps": options.steps}
        found = run_arms(
            typed(DistillJob, values, f"{stored.where} [job]"),
            options.out,
            typed(TuneSettings, settings, f"{stored.where} [settings]"),
            validation=None if options.validation is None else PairSource(options.validation),
            doubt=options.doubt,
            resume=options.resume,
            overwrite=options.overwrite,
        )
    print(table(rows_of(found["differences"]), left=3))


if __name__ == "__main__":
    main()
