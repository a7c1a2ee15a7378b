"""How well a model grades a file, with and without heads: file, figures, tables, words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qt_bert.data.columns import Columns, parse_columns
from qt_bert.data.pairs import GradeMap, Pair, Reject
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import sample_queries, spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.figures import Curve, HeatMap
from qt_bert.inspection.inputs import RefusedFile, listed_rejects, shown_name, uploaded
from qt_bert.inspection.inspected import Inspected, sliced_logits
from qt_bert.inspection.turns import Job
from qt_bert.inspection.views.phrases import score_name
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.progress import Progress, silent
from qt_bert.results.evaluation import ReliabilityBin, confusion_map, reliability_curve
from qt_bert.results.quantities import metric_name
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Judged, graded_pairs, judge_logits
from qt_bert.shipped import TEST, shipped
from qt_bert.stats.comparison import DRAWS, Difference, compare, differ_most
from qt_bert.stats.evaluation import NO_ELIGIBLE, Evaluation, evaluate, furthest_off
from qt_bert.stats.intervals import NO_RESAMPLES, ONE_QUERY, UNSTABLE
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.metrics.metric import REASONS
from qt_bert.text import Text, clip

# A graded file that a visitor uploads: read as `qt-bert evaluate` reads it, at most 2,000 pairs.


MOST_PAIRS = 2_000
MOST_ROWS_READ = 100_000
"""Pairs of a file that are read for the draw: what a server can hold for many visitors."""
MOST_REJECTS = 10_000
_MESSAGE_CHARACTERS = 600

Field = Literal["file", "columns", "grades"]


class FileFault(RefusedFile):
    """Why a file cannot be evaluated: beside which field it is to be said, and the rows at fault."""

    def __init__(self, field: Field, said: Text, rejects: Sequence[Reject] = ()) -> None:
        super().__init__(said)
        self.field: Field = field
        self.rejects = tuple(rejects)


@dataclass(frozen=True, kw_only=True)
class GradedFile:
    """The pairs to evaluate, drawn of a file of `n_pairs` pairs and `n_queries` queries.

    `unread`: the file goes on beyond the pairs that were read for the draw. `rejected` counts all
    rejects, `rejects` are the first of them.
    """

    name: str
    pairs: tuple[Pair, ...]
    n_pairs: int
    n_queries: int
    unread: bool
    rejected: int
    rejects: tuple[Reject, ...]

    @property
    def whole(self) -> bool:
        """Whether all pairs of the file are taken."""
        return len(self.pairs) == self.n_pairs and not self.unread


def read_graded(
    data: bytes, name: str, options: ReaderOptions, labels: ModelLabels, seed: int = 0
) -> GradedFile:
    """The pairs of an uploaded file, with labels as this model can be judged by.

    The file lies on disk only while it is read, in a folder that nobody else can open. Raises
    FileFault.
    """
    _check_options(options)
    rejects: tuple[Reject, ...] = ()
    try:
        with uploaded(data, name) as path:
            listed = path.with_name("rejects.tsv")
            try:
                return _read(path, shown_name(name), options, labels, seed, listed)
            except ArgumentError as error:
                raise PairFileError(str(error)) from error
            finally:
                rejects = listed_rejects(listed, MOST_REJECTS)
    except RefusedFile as error:
        field = _field_of(error.said.en)
        raise FileFault(field, _short(error.said), rejects) from error


def shipped_graded(labels: ModelLabels, seed: int = 0) -> GradedFile:
    """The test split that ships. Raises FileFault where this model cannot be judged by it."""
    path = shipped(TEST)
    try:
        return _read(path, path.name, ReaderOptions(), labels, seed)
    except (ArgumentError, PairFileError) as error:
        why = str(error).replace(f"{path.parent}/", "")
        raise FileFault(
            "file",
            _short(
                Text(
                    f"随包测试集不能用来评这个模型：{why}",
                    f"the test set that ships cannot judge this model: {why}",
                )
            ),
        ) from error


def _read(
    path: Path,
    name: str,
    options: ReaderOptions,
    labels: ModelLabels,
    seed: int,
    listed: Path | None = None,
) -> GradedFile:
    pairs, rejected = graded_pairs(
        path, options, labels, rejects_path=listed, most=MOST_ROWS_READ + 1
    )
    unread = len(pairs) > MOST_ROWS_READ
    del pairs[MOST_ROWS_READ:]
    drawn = draw(pairs, seed)
    _check_labels(drawn, labels)
    return GradedFile(
        name=name,
        pairs=tuple(drawn),
        n_pairs=len(pairs),
        n_queries=len({pair.query for pair in pairs}),
        unread=unread,
        rejected=rejected,
        rejects=listed_rejects(listed, MOST_REJECTS),
    )


def draw(pairs: Sequence[Pair], seed: int = 0, most: int = MOST_PAIRS) -> list[Pair]:
    """At most `most` pairs, in file order: whole queries, drawn by their text and `seed`.

    Where one query alone has more than half of them, as many queries as there can be instead.
    """
    if len(pairs) <= most:
        return list(pairs)
    largest = max(Counter(pair.query for pair in pairs).values())
    if 2 * largest > most:
        return spread_over_queries(pairs, most, seed)
    return sample_queries(pairs, most - largest + 1, seed)


def _check_options(options: ReaderOptions) -> None:
    """What can be said of the options before the file is opened. Raises FileFault."""
    try:
        given = parse_columns(options.columns) if options.columns is not None else {}
        Columns.resolve(given, header=not options.no_header)
    except ArgumentError as error:
        raise FileFault("columns", _short(Text(f"列名读不懂：{error}", str(error)))) from error
    try:
        if options.grades is not None:
            GradeMap.parse(options.grades)
    except ArgumentError as error:
        raise FileFault("grades", _short(Text(f"标注含义读不懂：{error}", str(error)))) from error


def _check_labels(pairs: Sequence[Pair], labels: ModelLabels) -> None:
    """ArgumentError where the labels do not fit the model, before it has scored anything."""
    judge_logits(np.zeros((len(pairs), labels.logits), np.float32), list(pairs), labels)


def _short(said: Text) -> Text:
    """A message that quotes the file no further than a reader wants."""
    most = _MESSAGE_CHARACTERS
    zh, en = (one if len(one) <= most else one[:most] + "…" for one in (said.zh, said.en))
    return Text(zh, en)


def _field_of(message: str) -> Field:
    """Beside which field an error stands: the one whose option it advises."""
    if "--grades" in message or "bad grade" in message or "missing grade" in message:
        return "grades"
    return "columns" if "--columns" in message or "--no-header" in message else "file"


# How well a model grades a file of pairs, and what changes when heads are left out of it.


RESAMPLES = 2_000
WORST = 50
SCORING, SCORING_WITHOUT, MEASURING, COMPARING = "scoring", "without", "measuring", "comparing"
STEPS = {
    SCORING: Text("打分，完整模型", "scoring, whole model"),
    SCORING_WITHOUT: Text("打分，去掉所选的头", "scoring, heads left out"),
    MEASURING: Text("计算指标与区间", "metrics and intervals"),
    COMPARING: Text("成对比较", "paired comparison"),
}
"""The steps that `evaluate_pairs` reports, in order, in words."""


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """One pair: its label, its score, and its score without the heads (None: none left out)."""

    line: int
    query: str
    title: str
    label: str | None
    predicted: str | None
    score: float
    score_without: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What an evaluation found: by the whole model, and without the heads `out`, where there are any.

    `differences` are B − A with B the masked model; `worst` are the pairs furthest from their label,
    `changed` those that the heads change most.
    """

    plain: Evaluation
    worst: tuple[PairRow, ...]
    truncated: int
    mode: str
    out: tuple[Head, ...] = ()
    without: Evaluation | None = None
    differences: dict[str, Difference] | None = None
    changed: tuple[PairRow, ...] = ()


def evaluate_pairs(
    inspected: Inspected,
    pairs: Sequence[Pair],
    out: Sequence[Head],
    mode: str,
    job: Job,
    shown: Progress = silent,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Measured:
    """Evaluate the model on graded pairs as `qt-bert evaluate` does, and compare as `compare` does.

    The model runs in slices of `job`; `shown` counts as `units` says, its notes are `STEPS`. Raises
    Stopped, and ArgumentError where labels and model do not fit.
    """
    whole, truncated = _judged(
        inspected, inspected.scorer.fresh(), pairs, job, _Note(shown, SCORING)
    )
    plain = _evaluated(whole, job, _Note(shown, MEASURING), resamples, seed)
    worst = furthest_off(whole.judgements, WORST).tolist()
    if not out:
        rows = _rows(inspected, whole, None, worst)
        return Measured(mode=mode, plain=plain, worst=rows, truncated=truncated)
    scorer = inspected.without(out, mode)
    other, _ = _judged(inspected, scorer, pairs, job, _Note(shown, SCORING_WITHOUT))
    most = differ_most(whole.judgements, other.judgements, WORST).tolist()
    return Measured(
        out=tuple(out),
        mode=mode,
        plain=plain,
        without=_evaluated(other, job, _Note(shown, MEASURING), resamples, seed),
        differences=_compared(whole, other, _Note(shown, COMPARING), seed),
        worst=_rows(inspected, whole, other, worst),
        changed=_rows(inspected, whole, other, most),
        truncated=truncated,
    )


def units(pairs: int, masked: bool) -> int:
    """What `evaluate_pairs` counts: a unit a pair and model."""
    return pairs * (1 + masked)


@dataclass(frozen=True)
class _Note:
    """Progress with the name of the step."""

    shown: Progress
    step: str

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.shown.advance(amount, note or self.step)


def _judged(
    inspected: Inspected, scorer: Scorer, pairs: Sequence[Pair], job: Job, shown: Progress
) -> tuple[Judged, int]:
    shown.advance(0)
    logits = sliced_logits(scorer, [(pair.query, pair.title) for pair in pairs], job, shown)
    listed = list(pairs)
    judged = Judged(listed, logits, judge_logits(logits, listed, inspected.labels), 0)
    return judged, scorer.counts.truncated_titles


def _evaluated(judged: Judged, job: Job, shown: Progress, resamples: int, seed: int) -> Evaluation:
    shown.advance(0)
    job.check()
    return evaluate(judged.judgements, resamples=resamples, seed=seed)


def _compared(whole: Judged, other: Judged, shown: Progress, seed: int) -> dict[str, Difference]:
    """Every metric's difference; one at a time, so that the work can be stopped between two.

    The draws follow from the seed, so the figures are those of all metrics at once.
    """
    found = {}
    for name in METRICS:
        shown.advance(0)
        one = compare(whole.judgements, other.judgements, metrics=[name], seed=seed)
        found[name] = one.metrics[name]
    return found


def _rows(
    inspected: Inspected, whole: Judged, other: Judged | None, places: Sequence[int]
) -> tuple[PairRow, ...]:
    outputs = inspected.outputs(whole.logits)
    without = None if other is None else inspected.outputs(other.logits).ranking_score
    return tuple(
        PairRow(
            line=whole.pairs[at].line,
            query=whole.pairs[at].query,
            title=whole.pairs[at].title,
            label=whole.pairs[at].label,
            predicted=None if outputs.predicted is None else outputs.predicted[at],
            score=float(outputs.ranking_score[at]),
            score_without=None if without is None else float(without[at]),
        )
        for at in places
    )


# What the page Evaluate says.


TITLE = Text("评测：一份带标注的文件", "Evaluate: a graded file")
INTRO = Text(
    f"模型给每一对打分，与标注比较；左栏选了要去掉的头，就再评一次并成对比较。这里最多 {MOST_PAIRS:,} 对。",
    "The model grades every pair, and its grades are set against the labels; with heads left out on "
    f"the left it does so twice and compares the two, pair by pair. At most {MOST_PAIRS:,} pairs here.",
)
SOURCE = Text("评测哪份文件", "Which file")
SOURCES = {
    "shipped": Text("随包测试集", "the test set that ships"),
    "upload": Text("上传文件", "an upload"),
}
FILE = Text("带标注的句对文件（不超过 10 MB）", "File of graded pairs (10 MB at most)")
FILE_HELP = Text(
    "每行一对：query、title、grade 三列（TSV、CSV 或 JSON Lines，UTF-8 或 GB18030）。文件只在本次会话的内存里，"
    "别人看不到。",
    "A pair a line with the columns query, title, grade (TSV, CSV or JSON Lines; UTF-8 or GB18030). "
    "The file stays in this session's memory, and nobody else sees it.",
)
HELD = Text("仍在使用 {name}。", "Still using {name}.")
FORGET = Text("移除这份文件", "Remove this file")
OPTIONS = Text("列名与标注的含义", "Columns, and what the labels mean")
COLUMNS = Text("列名（--columns）", "Columns (--columns)")
COLUMNS_HELP = Text(
    "我们的名字=文件里的列名；没有表头时写位置，从 1 数：query=1,title=2,grade=3",
    "our name=the file's column; without a header its position from 1: query=1,title=2,grade=3",
)
NO_HEADER = Text("第一行就是数据（--no-header）", "The first line is a pair (--no-header)")
GRADES = Text("标注的含义（--grades）", "What the labels mean (--grades)")
GRADES_HELP = Text(
    "标注=档位，或一段档位：0=1-2,1=3-4,2=5。不填：标注就是 1 到 5 档。",
    "label=grade, or a range of grades: 0=1-2,1=3-4,2=5. Left empty: the labels are grades 1–5.",
)
MAX_REJECTS = Text(
    "最多剔除百分之几的行（--max-rejects）", "Rows that may be rejects, % (--max-rejects)"
)
MAX_HELP = Text("10 行以内总是允许。", "Ten rows always may.")
EVALUATE = Text("评测", "Evaluate")
ALL_OF_IT = Text("完整文件的命令", "The command for the whole file")
COMPARED_BY = Text("成对比较的命令", "The command for the comparison")
PAIRS = Text("对", "pairs")
STOPPED = Text("已停止，没有结果。", "Stopped; there are no figures.")
CHANGED = Text(
    "设置已改变：下面是上一次的结果。再点“评测”重算。",
    "The settings have changed: below are the last figures. Evaluate again for new ones.",
)
METRICS_TAB, LEVELS_TAB = Text("指标", "Metrics"), Text("各档", "Levels")
HEADS_TAB, WORST_TAB = (
    Text("去掉头的影响", "Heads left out"),
    Text("偏差最大的对", "Pairs furthest off"),
)
HEADLINE = Text("方括号内：95% 区间。", "In brackets: 95 % intervals.")
HEADLINE_OUT = Text(
    "大字是完整模型；箭头旁是去掉所选的头之后的变化；方括号内是完整模型的 95% 区间。",
    "Large: the whole model. Beside the arrow: the change without the heads. In brackets: the whole "
    "model's 95 % interval.",
)
METRICS_NOTE = Text(
    f"区间：按查询自助重采样 {RESAMPLES:,} 次的 95% 区间。方向：↑ 越大越好，↓ 越小越好，→ 0 越接近 0 越好。",
    f"Intervals: 95 %, bootstrap over queries, {RESAMPLES:,} resamples. ↑ higher, ↓ lower, → 0 nearer to zero "
    "is better.",
)
DIFFERENCES_NOTE = Text(
    f"差 = 去掉头 − 完整模型，两者用同样的重采样；p：逐查询随机交换两者的预测 {DRAWS:,} 次，双侧，未对指标个数校正。",
    "Difference = heads left out − whole model, both under the same resamples; p: the two predictions "
    f"swapped at random query by query, {DRAWS:,} times, two-sided, not corrected for the number of metrics.",
)
NO_LEVELS = Text(
    "这个模型和这些标注没有共同的档位，所以没有混淆矩阵和各档的数。",
    "This model and these labels share no levels: no confusion matrix, no figures by level.",
)
CLICK = Text("点一行，就在首页查看这一对。", "Click a row to look at that pair on the front page.")
CHANGED_PAIRS = Text("去掉头后变化最大的对", "Pairs that the heads change most")


def sample(file: GradedFile) -> Text:
    """Which pairs are taken."""
    pairs, queries = f"{len(file.pairs):,}", f"{len({pair.query for pair in file.pairs}):,}"
    if file.whole:
        return Text(
            f"全部 {pairs} 对（{queries} 个查询）。", f"All {pairs} pairs ({queries} queries)."
        )
    of = f"{file.n_pairs:,}"
    more = f"{MOST_ROWS_READ:,}"
    return Text(
        f"按种子从{'前 ' + more if file.unread else ' ' + of} 对中抽取 {pairs} 对（{queries} 个查询，按整个查询抽）。"
        "整份文件请用下面的命令。",
        f"{pairs} pairs of {queries} queries, drawn by the seed as whole queries of "
        f"{'the first ' + more if file.unread else of} pairs. The command below takes the whole file.",
    )


def reason(english: str | None) -> Text | None:
    """Why a metric has no value or no interval, in both languages."""
    return None if english is None else Text(_REASONS.get(english, english), english)


_REASONS = {
    REASONS["overlapping"]: "标注的档位集合互相重叠，不成有序的级别",
    REASONS["score"]: "单 logit 模型只给出顺序，没有档位：看 pairwise accuracy、NDCG 和 Spearman",
    NO_ELIGIBLE: "没有一个查询的标题有两种档位",
    NO_RESAMPLES: "没有区间：未做重采样",
    ONE_QUERY: "没有区间：只有一个查询，无法重采样",
    UNSTABLE: "没有区间：超过 5% 的重采样里该指标无定义",
    "no pair to judge": "没有可评的对",
}


# An evaluation's figures and tables, as the page lays them out.


Cell = str | int | float | Text | None
Rows = list[dict[str, Cell]]
"""Rows of a table: key of a column → the cell."""

_HEADS_NAMED = 8
_TEXT_SHOWN = 200

GROUPS = {
    "class": Text("分类", "classes"),
    "ordinal": Text("有序等级", "ordered grades"),
    "ranking": Text("排序", "ranking"),
    "calibration": Text("概率校准", "calibration"),
}
HEADLINES = ("accuracy", "qwk", "spearman", "ndcg_at_5")
BETTER = {"higher": "↑", "lower": "↓", "zero": "→ 0"}
TABLE_COLUMNS = {
    "group": Text("类别", "group"),
    "metric": Text("指标", "metric"),
    "value": Text("值", "value"),
    "plain": Text("完整模型", "whole model"),
    "without": Text("去掉头", "heads left out"),
    "difference": Text("差", "difference"),
    "low": Text("95% 下限", "95 % low"),
    "high": Text("95% 上限", "95 % high"),
    "p": Text("p 值", "p"),
    "better": Text("方向", "better"),
    "pairs": Text("对数", "pairs"),
    "queries": Text("可评查询", "eligible queries"),
    "why": Text("无值或无区间的原因", "why there is no value or interval"),
    "level": Text("等级", "level"),
    "precision": Text("精确率（0–1）", "precision (0–1)"),
    "recall": Text("召回率（0–1）", "recall (0–1)"),
    "f1": Text("F1（0–1）", "F1 (0–1)"),
    "support": Text("标注为它的对", "pairs labelled so"),
    "predicted": Text("判为它的对", "pairs graded so"),
}
"""The tables' columns in words."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A metric that stays in view: value, interval, what it rests on, and the change without heads."""

    title: Text
    value: float
    low: float | None
    high: float | None
    change: float | None
    base: Text


def headline(measured: Measured) -> list[Headline]:
    """The few metrics that stay in view, as far as they are defined."""
    found = []
    for name in HEADLINES:
        one = measured.plain.metrics[name]
        if one.value is None:
            continue
        changed = (measured.differences or {}).get(name)
        found.append(
            Headline(
                title=metric_name(name),
                value=one.value,
                low=one.ci_low,
                high=one.ci_high,
                change=changed.difference if changed else None,
                base=_base(name, one.n, _queries(one.n_eligible, one.n_queries)),
            )
        )
    return found


def about(inspected: Inspected, file: GradedFile, out: Sequence[Head], mode: str) -> Text:
    """Which model was evaluated on what, and which heads were left out beside."""
    name, pairs = inspected.name, f"{len(file.pairs):,}"
    zh, en = f"{name} · {file.name} · {pairs} 对", f"{name} · {file.name} · {pairs} pairs"
    if not out:
        return Text(zh, en)
    heads = spell(out) if len(out) <= _HEADS_NAMED else f"{spell(out[:_HEADS_NAMED])} …"
    return Text(
        f"{zh} · 去掉 {len(out)} 个头：{heads}（{mode}）",
        f"{en} · without {len(out)} heads: {heads} ({mode})",
    )


def metric_rows(evaluation: Evaluation) -> Rows:
    """Every metric with its interval and its base; one without a value says why."""
    return [
        {
            "group": GROUPS[METRICS[name].needs],
            "metric": metric_name(name),
            "value": one.value,
            "low": one.ci_low,
            "high": one.ci_high,
            "better": BETTER[METRICS[name].direction],
            "pairs": one.n,
            "queries": _queries(one.n_eligible, one.n_queries),
            "why": reason(one.reason),
        }
        for name, one in evaluation.metrics.items()
    ]


def difference_rows(differences: dict[str, Difference]) -> Rows:
    """Every metric by the whole model and without the heads, the paired difference and its test."""
    return [
        {
            "group": GROUPS[METRICS[name].needs],
            "metric": metric_name(name),
            "plain": one.value_a,
            "without": one.value_b,
            "difference": one.difference,
            "low": one.ci_low,
            "high": one.ci_high,
            "p": one.p,
            "better": BETTER[METRICS[name].direction],
            "pairs": one.n,
            "why": reason(one.reason),
        }
        for name, one in differences.items()
    ]


def level_rows(evaluation: Evaluation) -> Rows:
    """Precision, recall and F1 of every level; nothing where there are no levels."""
    names = ("level", "precision", "recall", "f1", "support", "predicted")
    return [{name: row[name] for name in names} for row in evaluation.per_grade or ()]


def pair_columns(labels: ModelLabels) -> dict[str, Text]:
    """The columns of a table of pairs."""
    score = score_name(labels)
    return {
        "line": Text("行", "line"),
        "query": Text("查询", "query"),
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def pair_rows(pairs: Sequence[PairRow]) -> Rows:
    """Pairs as rows of a table."""
    return [
        {
            "line": one.line,
            "query": clip(one.query, _TEXT_SHOWN),
            "title": clip(one.title, _TEXT_SHOWN),
            "label": one.label,
            "predicted": one.predicted,
            "score": one.score,
            "without": one.score_without,
            "change": None if one.score_without is None else one.score_without - one.score,
        }
        for one in pairs
    ]


def figures(evaluation: Evaluation) -> tuple[HeatMap | Curve, ...]:
    """Confusion and reliability, as far as they are defined."""
    found: list[HeatMap | Curve] = []
    if evaluation.confusion is not None:
        found.append(confusion_map(evaluation.levels, evaluation.confusion))
    if evaluation.reliability is not None:
        curve = reliability_curve(_bins(evaluation.reliability))
        found += [] if curve is None else [curve]
    return tuple(found)


def _bins(rows: Sequence[dict[str, Any]]) -> list[ReliabilityBin]:
    return [
        ReliabilityBin(
            confidence=row["confidence"], accuracy=row["accuracy"], count=int(row["count"] or 0)
        )
        for row in rows
    ]


def _base(name: str, pairs: int, queries: str | None) -> Text:
    """What a metric means, and what its value rests on."""
    zh, en = METRICS[name].description
    if queries is None:
        return Text(f"{zh}{pairs:,} 对。", f"{en} {pairs:,} pairs.")
    return Text(
        f"{zh}{pairs:,} 对，可评查询 {queries}。",
        f"{en} {pairs:,} pairs, eligible queries {queries}.",
    )


def _queries(eligible: int | None, queries: int | None) -> str | None:
    return None if queries is None else f"{eligible:,}/{queries:,}"
