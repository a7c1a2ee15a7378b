"""Does the plan pay? Students of one size, trained alike, compared over seeds and queries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write, is_vacant, read_json, sha256_file
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning.choice import even_layers
from qt_bert.planning.distill import DistillJob, levels_of, run_distill
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import (
    Arm,
    ArmDifference,
    ArmRun,
    ArmsFile,
    LayerMatch,
    Outcome,
    Plan,
    layer_map,
)
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import RESAMPLES, bootstrap_weights, interval_or_reason, resample
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, joined
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.recipes import PairSource
from qt_bert.training.state import STATE_FILE, workspace_of

# Differences of trained students, over seeds and queries together.


JUDGED = ("spearman", "qwk")
"""What arms are compared by: the order of the expected grades, and the grades themselves."""

BySeed = Mapping[int, Judgements]
"""Seed → what its student gave, all on the same pairs."""


def paired_differences(
    plan: BySeed, rival: BySeed, *, name: str, on: str, resamples: int = RESAMPLES, seed: int = 0
) -> list[ArmDifference]:
    """The plan's students against a rival's by each of `JUDGED`, where it is defined.

    A resample draws seeds, and apart from these queries, with replacement; both arms see the same
    draw, and the difference is the mean over the drawn seeds. Resampling both factors of a crossed
    design apart is the pigeonhole bootstrap (Owen 2007, Annals of Applied Statistics 1), which is
    rather too wide than too narrow where both have many members. Of few seeds a plain resample is
    too narrow, by (n − 1) / n in variance; `_over_seeds` makes up for that. What three or five seeds
    happen not to show remains unseen.
    """
    seeds = sorted(set(plan) & set(rival))
    found = []
    for metric in JUDGED:
        values = [_values(arm, seeds, metric, resamples, seed) for arm in (plan, rival)]
        if any(np.isnan(one[:, 0]).any() for one in values):
            continue
        ours, theirs = (float(one[:, 0].mean()) for one in values)
        samples = _over_seeds(values[0][:, 1:] - values[1][:, 1:], seed)
        low, high, _ = interval_or_reason(samples, plan[seeds[0]].n_queries)
        found.append(
            ArmDifference(
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


def outcome_of(low: float | None, high: float | None) -> Outcome:
    """What an interval of a difference says."""
    if low is None or high is None or low <= 0 <= high:
        return "undecided"
    return "better" if low > 0 else "worse"


def _values(arm: BySeed, seeds: list[int], metric: str, resamples: int, seed: int) -> FloatArray:
    """A metric of each seed's student, plain and under the same query weights [seeds, 1 + R]."""
    rows = []
    for one in (arm[number] for number in seeds):
        if METRICS[metric].refusal(one):
            rows.append(np.full(1 + resamples, np.nan))
            continue
        estimator = [METRICS[metric].estimator(one)]
        weights = bootstrap_weights(one.n_queries, resamples, seed, width=len(one))
        plain = resample(estimator, iter([np.ones((1, one.n_queries))]))
        rows.append(np.concatenate([plain, resample(estimator, weights)], axis=1)[0])
    return np.array(rows)


def _over_seeds(differences: FloatArray, seed: int) -> FloatArray:
    """Means over seeds drawn anew for each resample of the queries: [seeds, R] → [R].

    Their distance from the mean of all seeds is stretched by √(n / (n − 1)), so that they vary as
    much as the variance s² / n of a mean of n seeds says (the rescaling of Rao & Wu 1988, Journal
    of the American Statistical Association 83).
    """
    count, resamples = differences.shape
    if count == 1:
        return differences[0]
    drawn = np.random.default_rng([seed, 1]).integers(count, size=(count, resamples))
    plain, middle = np.take_along_axis(differences, drawn, axis=0).mean(0), differences.mean(0)
    return middle + (plain - middle) * np.sqrt(count / (count - 1))


# Finished students, judged: logits kept beside the runs, metrics from them.


SHOWN = (*JUDGED, "accuracy")
"""The metrics that are told of every run."""


@dataclass(frozen=True)
class JudgedOn:
    """Graded pairs that all students are judged on; `name` is `dev` or `validation`."""

    name: str
    file: Path
    pairs: list[Pair]

    @classmethod
    def read(cls, name: str, source: PairSource, levels: int | None) -> JudgedOn:
        """The pairs of `source`. Raises PairFileError as it does."""
        return cls(name, source.file, source.read(levels=levels, labelled=True))

    @property
    def ref(self) -> PairsRef:
        """The file's name and hash."""
        return PairsRef(name=self.file.name, sha256=sha256_file(self.file))

    def judge(self, model: Path, kept_in: Path | None = None) -> Judgements:
        """What the model in the folder `model` gives in float32; its logits go to `kept_in`."""
        checkpoint = open_checkpoint(model, compact=True)
        logits = Scorer(checkpoint).logits([(p.query, p.title) for p in self.pairs])
        if kept_in is not None:
            with atomic_write(kept_in) as temporary, open(temporary, "wb") as handle:
                np.save(handle, logits)
        return judge_logits(logits, self.pairs, checkpoint.settings.labels)


def metrics_of(judged: Judgements) -> dict[str, float | None]:
    """Metric → its value; None where it is not defined."""
    return {name: METRICS[name].value(judged) for name in SHOWN}


# The students that a plan is held against: same size, same data, same steps.


PLAN, EVEN, GRADES, MIDDLE = "plan", "even", "grades", "middle"

WORDS = {
    PLAN: Text(
        "按方案保留层与头，按方案的层对应迁移", "the plan: its layers and heads, its layer map"
    ),
    EVEN: Text(
        "等间隔保留同样多的层与头，层对应也等间隔",
        "as many layers and heads at even spacing, mapped evenly",
    ),
    GRADES: Text("方案的起点，只学标注，不用教师", "the plan's start, on grades alone"),
    MIDDLE: Text(
        "方案的起点，隐藏状态只从教师中间三分之一的层迁移",
        "the plan's start, hidden states from the teacher's middle third only",
    ),
}
"""What each arm is, for a reader."""

SEEDS = {PLAN: 5, EVEN: 5, GRADES: 3, MIDDLE: 3}
"""Runs of each arm: seeds 0, 1, …; runs of one seed see the data in one order."""


@dataclass(frozen=True)
class ArmJob:
    """One arm: its name and what its runs do."""

    name: str
    job: DistillJob


def arms_of(job: DistillJob) -> tuple[ArmJob, ...]:
    """The plan of `job` first, then its rivals.

    Raises ArgumentError where the loss has no hidden states to leave out, or no teacher at all.
    """
    if not job.loss.asks_the_teacher or not job.loss.hidden:
        raise ArgumentError(
            "--arms compares ways to learn from a teacher: give the loss's `hidden` a weight"
        )
    plan = job.student.plan
    plans = {PLAN: plan, EVEN: even_plan(plan), GRADES: plan, MIDDLE: middle_plan(plan)}
    arms = []
    for name, one in plans.items():
        loss = job.loss.grades_alone() if name == GRADES else job.loss
        student = replace(job.student, plan=one)
        arms.append(ArmJob(name, replace(job, student=student, loss=loss)))
    return tuple(arms)


def even_plan(plan: Plan) -> Plan:
    """As many layers, heads and feed-forward units as `plan` keeps, all at even spacing.

    Heads and units are shared out evenly over the layers; where they do not divide, the lower layers
    have one more. Which units these are is for their gradient importance to say, as in a plan that
    names none. Heads that go leave zeros.
    """
    teacher = plan.teacher
    count = len(plan.kept)
    layers = even_layers(teacher.layers, count)
    heads = _shared(sum(len(one.heads) for one in plan.kept), count)
    units = _shared(sum(one.units or teacher.units for one in plan.kept), count)
    kept = tuple(
        KeptLayer(
            layer=layer,
            heads=_spaced(teacher.heads, number),
            units=None if width == teacher.units else width,
        )
        for layer, number, width in zip(layers, heads, units, strict=True)
    )
    mapped = layer_map(kept, teacher.layers)
    return replace(plan, kept=kept, layer_map=mapped, replacement="zero", units={})


def middle_plan(plan: Plan) -> Plan:
    """`plan` with a layer map into the teacher's middle third alone.

    A student's layer stands for the teacher's layers from the one it starts as to the one it
    imitates. Where some of these lie in the middle third, it imitates the highest of them; else it
    imitates none.
    """
    low, high = middle_third(plan.teacher.layers)
    matches: Sequence[LayerMatch] = [
        replace(match, imitates=min(match.imitates, high))
        for match in plan.layer_map
        if match.starts_as <= high and match.imitates >= low
    ]
    return replace(plan, layer_map=tuple(matches))


def middle_third(layers: int) -> tuple[int, int]:
    """The lowest and highest layer of the middle third: 4 and 7 of twelve."""
    low = layers // 3
    return low, max(low, layers - layers // 3 - 1)


def _shared(total: int, parts: int) -> list[int]:
    """`total` as `parts` whole numbers that differ by at most one, larger ones first."""
    least, more = divmod(total, parts)
    return [least + (place < more) for place in range(parts)]


def _spaced(count: int, kept: int) -> tuple[int, ...]:
    """`kept` of the numbers below `count` at even spacing."""
    return tuple(place * count // kept for place in range(kept))


# What the arms found, in words and as a table.


OUTCOMES: dict[Outcome, Text] = {
    "better": Text("方案更好", "the plan is better"),
    "worse": Text("方案更差", "the plan is worse"),
    "undecided": Text("分不出高下", "no difference is shown"),
}


PAIRS = {"dev": Text("开发集", "dev"), "validation": Text("验证集", "validation")}
"""What the files of pairs are called."""


def summary_of(differences: Sequence[ArmDifference]) -> Text:
    """A sentence for each rival and metric, on the pairs judged last; either way it went."""
    if not differences:
        return Text("没有可比较的指标。", "No metric could be compared.")
    last = differences[-1].on
    return joined(_sentence(one) for one in differences if one.on == last)


def _sentence(one: ArmDifference) -> Text:
    low, high = (_signed(end) for end in (one.ci_low, one.ci_high))
    found = f"{_signed(one.difference)} [{low}, {high}]"
    name = {"spearman": "Spearman ρ", "qwk": "QWK"}[one.metric]
    rival, outcome = WORDS[one.rival], OUTCOMES[one.outcome]
    seeds = f"{one.seeds} paired seed{'' if one.seeds == 1 else 's'}"
    return Text(
        f"与“{rival.zh}”相比，{PAIRS[one.on].zh} {name} 相差 {found}"
        f"（{one.seeds} 个成对种子）：{outcome.zh}。",
        f"Against “{rival.en}”, {name} on {PAIRS[one.on].en}: {found} ({seeds}): {outcome.en}.",
    )


def rows_of(file: ArmsFile) -> list[tuple[str, ...]]:
    """The differences as rows of a table, its heading first."""
    rows: list[tuple[str, ...]] = [
        ("on", "rival", "metric", "plan", "rival's", "difference", "95 % interval", "")
    ]
    for one in file.differences:
        ends = "" if one.ci_low is None else f"[{_signed(one.ci_low)}, {_signed(one.ci_high)}]"
        values = (f"{one.plan_value:.3f}", f"{one.rival_value:.3f}", _signed(one.difference))
        rows.append((one.on, one.rival, one.metric, *values, ends, OUTCOMES[one.outcome].en))
    return rows


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


# Does the plan pay? All arms trained, judged, and held against the plan; taken up after a kill.


ARMS_FILE, RUNS, LOGITS = "arms.json", "runs", "logits"


@dataclass(frozen=True)
class ArmsJob:
    """What all arms learn, how often each is run, and the pairs for the end."""

    job: DistillJob
    settings: TuneSettings
    seeds: Mapping[str, int]
    validation: PairSource | None = None

    def runs(self, arm: ArmJob) -> range:
        """The seeds of an arm, from 0."""
        return range(self.seeds[arm.name])

    def order(self, arms: Sequence[ArmJob]) -> Iterator[tuple[ArmJob, int]]:
        """Seed by seed: a work that is stopped has arms to compare."""
        for seed in range(max(self.seeds.values())):
            yield from ((arm, seed) for arm in arms if seed in self.runs(arm))

    def files(self, levels: int | None) -> list[JudgedOn]:
        """The pairs that all are judged on."""
        named = {"dev": self.job.dev, "validation": self.validation}
        return [JudgedOn.read(name, source, levels) for name, source in named.items() if source]


def run_arms(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    *,
    validation: PairSource | None = None,
    seeds: Mapping[str, int] = SEEDS,
    resume: bool = False,
    overwrite: bool = False,
) -> ArmsFile:
    """Train every arm with its seeds under `out/runs`, judge them, and write `out/arms.json`.

    Seed s trains with `settings.seed` + s, which fixes the order of the data, and for all steps,
    whatever `settings.patience`. A teacher of one output has no arm on grades alone. The logits of
    each run are kept in `out/logits/ARM-SEED.dev.npy` (float32 [pair, output], pairs in file order).
    The pairs of `validation` are for the end: given with `resume` to finished runs, they train
    nothing anew.

    Raises ArgumentError where `job` has no `dev` or nothing to learn from the teacher,
    RunFolderError where `out` holds anything and neither flag says what to do, and as `run_distill`.
    """
    if job.dev is None:
        raise ArgumentError("--arms needs --dev FILE: all arms are judged on the same pairs")
    asked = ArmsJob(job, replace(settings, patience=0), seeds, validation)
    labels = open_checkpoint(job.student.model).settings.labels
    files = asked.files(levels_of(labels))  # a fault of these is found before hours of training
    arms = [arm for arm in arms_of(job) if arm.name != GRADES or labels.logits > 1]
    _open(out, resume=resume, overwrite=overwrite)
    for arm, seed in asked.order(arms):
        _train(asked, arm, seed, _folder(out, arm, seed))
    result = _judge(asked, arms, files, out)
    result.write(out / ARMS_FILE)
    return result


def _train(asked: ArmsJob, arm: ArmJob, seed: int, folder: Path) -> None:
    """Train one arm into `folder`, or leave it where it is finished."""
    settings = replace(asked.settings, seed=asked.settings.seed + seed)
    run_distill(arm.job, folder, settings, resume=True)
    # What a run resumes from is some eight times its student, and there are many runs.
    (workspace_of(folder) / STATE_FILE).unlink(missing_ok=True)


def _open(out: Path, *, resume: bool, overwrite: bool) -> None:
    if is_vacant(out) or (resume and (out / RUNS).is_dir()):
        return
    if not overwrite:
        raise RunFolderError(
            f"{out} is not empty; --resume goes on with arms begun there, --overwrite starts anew"
        )
    for name in (RUNS, LOGITS):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / ARMS_FILE).unlink(missing_ok=True)


def _folder(out: Path, arm: ArmJob, seed: int) -> Path:
    return out / RUNS / f"{arm.name}-{seed}"


def _judge(
    asked: ArmsJob, arms: Sequence[ArmJob], files: Sequence[JudgedOn], out: Path
) -> ArmsFile:
    """Every run on every file, and the plan against each rival."""
    model = asked.job.student.model
    judged = {(arm.name, file.name): _runs(asked, arm, file, out) for arm in arms for file in files}
    facts = {(arm.name, seed): _facts(out, arm, seed) for arm, seed in asked.order(arms)}
    differences = [
        found
        for file in files
        for arm in arms
        if arm.name != PLAN
        for found in paired_differences(
            judged[PLAN, file.name], judged[arm.name, file.name], name=arm.name, on=file.name
        )
    ]
    runs = [
        ArmRun(
            arm=arm.name,
            seed=seed,
            best_step=int(facts[arm.name, seed]["best_step"]),
            metrics={f.name: metrics_of(judged[arm.name, f.name][seed]) for f in files},
        )
        for arm, seed in asked.order(arms)
    ]
    return ArmsFile(
        teacher=asked.job.student.plan.teacher,
        steps=max(int(one["planned_steps"]) for one in facts.values()),
        pairs={file.name: file.ref for file in files},
        teacher_metrics={f.name: metrics_of(f.judge(model)) for f in files},
        arms=tuple(_arm(arm, _folder(out, arm, 0)) for arm in arms),
        runs=tuple(runs),
        differences=tuple(differences),
        summary=summary_of(differences),
    )


def _runs(asked: ArmsJob, arm: ArmJob, file: JudgedOn, out: Path) -> dict[int, Judgements]:
    """Seed → what the arm's student gives on `file`."""
    folders = {seed: _folder(out, arm, seed) for seed in asked.runs(arm)}
    return {
        seed: file.judge(folder, out / LOGITS / f"{folder.name}.{file.name}.npy")
        for seed, folder in folders.items()
    }


def _facts(out: Path, arm: ArmJob, seed: int) -> dict[str, int]:
    facts: dict[str, int] = read_json(_folder(out, arm, seed) / "training.json")
    return facts


def _arm(arm: ArmJob, folder: Path) -> Arm:
    student = arm.job.student
    return Arm(
        name=arm.name,
        what=WORDS[arm.name],
        kept=student.kept,
        layer_map=student.layer_map,
        parameters=open_checkpoint(folder, compact=True).parameters,
    )
