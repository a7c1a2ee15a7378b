"""Evaluate: a graded file, by the whole model and with heads left out of it."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import (
    caption,
    escaped,
    finished,
    info,
    metric,
    named,
    say,
    show_rejects,
    table,
    watch,
)
from qt_bert.data.columns import Columns, parse_columns
from qt_bert.data.pairs import GradeMap, Pair, Reject
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import sample_queries, spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.figures import Curve, HeatMap
from qt_bert.inspection.inputs import (
    UPLOADED_SUFFIXES,
    RefusedFile,
    listed_rejects,
    shown_name,
    uploaded,
)
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import AFTER, BEFORE, NO_GRADES, score_name, titles_cut
from qt_bert.inspection.work import Job, Stopped
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.results.evaluation import ReliabilityBin, confusion_map, reliability_curve
from qt_bert.results.quantities import metric_name
from qt_bert.scoring.judge import Judged, graded_pairs, judge_logits
from qt_bert.shipped import GRADED, TEST, shipped
from qt_bert.stats.comparison import DRAWS, Difference, compare, differ_most
from qt_bert.stats.evaluation import Evaluation, evaluate, furthest_off
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, clip, interval, number, signed

# Pairs that are evaluated, pairs of a file that are read for the draw, and rejects that are listed.
MOST_PAIRS, MOST_ROWS_READ, MOST_REJECTS = 2_000, 100_000, 10_000
RESAMPLES, WORST, MESSAGE, TEXT_SHOWN, HEADS_NAMED = 2_000, 50, 600, 200, 8
HEADLINES = ("accuracy", "qwk", "spearman", "ndcg_at_5")
# Where the session keeps the file as read, the upload, the job and the last figures.
READ, HELD, JOB, DONE = (f"evaluate.{name}" for name in ("read", "held", "job", "done"))


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(say("评测：一份带标注的文件", "Evaluate: a graded file"))
    caption(
        f"模型给每一对打分，与标注比较；左栏选了要去掉的头，就再评一次并成对比较。这里最多 {MOST_PAIRS:,} 对。",
        "The model grades every pair, and its grades are set against the labels; with heads left "
        "out on the left it does so twice and compares the two, pair by pair. At most "
        f"{MOST_PAIRS:,} pairs here.",
    )
    if not here.model.classifies:
        info(NO_GRADES)
        return
    if JOB in st.session_state and (result := st.session_state[JOB].result) is not None:
        st.session_state[DONE] = result
    fault = finished(JOB)
    asked = _asked(here)
    if asked is not None:
        _offer(here, asked)
    if isinstance(fault, Stopped):
        info("已停止，没有结果。", "Stopped; there are no figures.")
    elif fault is not None:
        raise fault
    if JOB in st.session_state:
        watch(st.session_state[JOB], unit=Text("对", "pairs"), steps=STEPS, key="evaluate")
    elif DONE in st.session_state:
        done = st.session_state[DONE]
        st.subheader(escaped(say(done.about)))
        if asked is None or done.key != _key(here, asked):
            changed = Text(
                "设置已改变：下面是上一次的结果。再点“评测”重算。",
                "The settings have changed: below are the last figures. Evaluate again for new ones.",
            )
            st.warning(say(changed))
        _figures(here, done)


# The graded file: the test split that ships, or an upload with its columns and labels.


class FileFault(RefusedFile):
    """Why a file cannot be evaluated: beside which field it is to be said, and the rows at fault."""

    def __init__(self, field: str, said: Text, rejects: Sequence[Reject] = ()) -> None:
        cut = (one if len(one) <= MESSAGE else one[:MESSAGE] + "…" for one in (said.zh, said.en))
        super().__init__(Text(*cut))
        self.field, self.rejects = field, tuple(rejects)


@dataclass(frozen=True, kw_only=True)
class GradedFile:
    """The pairs to evaluate, drawn of a file of `n_pairs` pairs; `unread`: it goes on beyond these.

    `rejects` are the first of the `rejected` rows. `path` is what commands call it, None: what ships.
    """

    name: str
    path: str | None
    options: ReaderOptions
    pairs: tuple[Pair, ...]
    n_pairs: int
    unread: bool
    rejected: int
    rejects: tuple[Reject, ...]


@dataclass(frozen=True)
class Asked:
    """The file that a visitor chose, and what tells it from others."""

    file: GradedFile
    key: Hashable


def read_graded(
    data: bytes | None, name: str, options: ReaderOptions, labels: ModelLabels, seed: int = 0
) -> GradedFile:
    """The pairs of an upload (None: of the test split that ships), with labels that fit this model.

    An upload lies on disk only while it is read, in a folder that nobody else can open. Raises
    FileFault.
    """
    if data is None:
        path = shipped(TEST)
        try:
            return _read(path, path.name, None, options, labels, seed)
        except (ArgumentError, PairFileError) as error:
            why = str(error).replace(f"{path.parent}/", "")
            said = Text(
                f"随包测试集不能用来评这个模型：{why}",
                f"the test set that ships cannot judge this model: {why}",
            )
            raise FileFault("file", said) from error
    _check_options(options)
    rejects: tuple[Reject, ...] = ()
    try:
        with uploaded(data, name) as path:
            try:
                return _read(path, shown_name(name), name, options, labels, seed)
            except ArgumentError as error:
                raise PairFileError(str(error)) from error
            finally:
                rejects = listed_rejects(path.with_name("rejects.tsv"), MOST_REJECTS)
    except RefusedFile as error:
        raise FileFault(field_of(error.said.en), error.said, rejects) from error


def _read(
    path: Path,
    shown: str,
    name: str | None,
    options: ReaderOptions,
    labels: ModelLabels,
    seed: int,
) -> GradedFile:
    listed = None if name is None else path.with_name("rejects.tsv")
    pairs, rejected = graded_pairs(
        path, options, labels, rejects_path=listed, most=MOST_ROWS_READ + 1
    )
    unread = len(pairs) > MOST_ROWS_READ
    del pairs[MOST_ROWS_READ:]
    drawn = draw_pairs(pairs, seed)
    # Labels that do not fit the model are refused before it has scored anything.
    judge_logits(np.zeros((len(drawn), labels.logits), np.float32), drawn, labels)
    return GradedFile(
        name=shown,
        path=name,
        options=options,
        pairs=tuple(drawn),
        n_pairs=len(pairs),
        unread=unread,
        rejected=rejected,
        rejects=listed_rejects(listed, MOST_REJECTS),
    )


def draw_pairs(pairs: Sequence[Pair], seed: int = 0, most: int = MOST_PAIRS) -> list[Pair]:
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
        raise FileFault("columns", Text(f"列名读不懂：{error}", str(error))) from error
    try:
        if options.grades is not None:
            GradeMap.parse(options.grades)
    except ArgumentError as error:
        raise FileFault("grades", Text(f"标注含义读不懂：{error}", str(error))) from error


def field_of(message: str) -> str:
    """Beside which field an error stands: the one whose option it advises."""
    if "--grades" in message or "bad grade" in message or "missing grade" in message:
        return "grades"
    return "columns" if "--columns" in message or "--no-header" in message else "file"


def _asked(here: Here) -> Asked | None:
    """The file that the visitor chose; None where there is none yet, or it cannot be read: said."""
    names = {
        "shipped": Text("随包测试集", "the test set that ships"),
        "upload": Text("上传文件", "an upload"),
    }
    source = st.radio(
        say("评测哪份文件", "Which file"),
        list(names),
        format_func=named(names),
        horizontal=True,
        key="evaluate.source",
        persist_state="session",
    )
    name, data, options = "", None, ReaderOptions()
    slots: dict[str, Any] = {}
    file = st.empty()
    if source == "upload":
        held = _upload()
        file = st.empty()
        options, slots = _options()
        if held is None:
            return None
        name, data = held
    labels, seed = here.model.labels, here.state.seed
    asked = (
        None if data is None else hashlib.sha256(data).hexdigest(),
        name,
        options,
        labels,
        seed,
    )
    if st.session_state.get(READ, (None,))[0] != asked:
        found, fault = None, None
        try:
            found = read_graded(data, name, options, labels, seed)
        except FileFault as error:
            fault = error.with_traceback(None)
        st.session_state[READ] = (asked, found, fault)
    _, found, fault = st.session_state[READ]
    if fault is not None:
        slots.get(fault.field, file).error(escaped(say(fault.said)), icon=":material/block:")
        show_rejects(fault.rejects, len(fault.rejects))
        return None
    return Asked(found, asked)


def _upload() -> tuple[str, bytes] | None:
    """Name and bytes of the upload; they stay in this session alone."""

    def hold() -> None:
        file = st.session_state["evaluate.file"]
        st.session_state[HELD] = None if file is None else (file.name, file.getvalue())

    st.file_uploader(
        say("带标注的句对文件（不超过 10 MB）", "File of graded pairs (10 MB at most)"),
        type=[suffix.removeprefix(".") for suffix in UPLOADED_SUFFIXES],
        max_upload_size=10,
        key="evaluate.file",
        help=say(
            "每行一对：query、title、grade 三列（TSV、CSV 或 JSON Lines，UTF-8 或 GB18030）。"
            "文件只在本次会话的内存里，别人看不到。",
            "A pair a line with the columns query, title, grade (TSV, CSV or JSON Lines; UTF-8 or "
            "GB18030). The file stays in this session's memory, and nobody else sees it.",
        ),
        on_change=hold,
    )
    held: tuple[str, bytes] | None = st.session_state.get(HELD)
    if held is not None:
        caption(
            "文件不在链接里，别人打开链接看不到它。",
            "No link holds the file: others do not see it.",
        )
    if held is not None and st.session_state.get("evaluate.file") is None:
        caption(f"仍在使用 {held[0]}。", f"Still using {held[0]}.")
        st.button(
            say("移除这份文件", "Remove this file"),
            on_click=lambda: st.session_state.pop(HELD, None),
            icon=":material/delete:",
        )
    return held


def _options() -> tuple[ReaderOptions, dict[str, Any]]:
    """The options of `qt-bert evaluate` as fields; beneath two of them a slot for what is wrong."""
    slots: dict[str, Any] = {}
    fold = say("列名与标注的含义", "Columns, and what the labels mean")
    with st.expander(fold, expanded=True):
        left, right = st.columns(2)
        with left:
            columns = _typed(
                "columns",
                Text("列名（--columns）", "Columns (--columns)"),
                Text(
                    "我们的名字=文件里的列名；没有表头时写位置，从 1 数：query=1,title=2,grade=3",
                    "our name=the file's column; without a header its position from 1: "
                    "query=1,title=2,grade=3",
                ),
                "query=q,title=t,grade=label",
            )
            slots["columns"] = st.empty()
            no_header = st.checkbox(
                say("第一行就是数据（--no-header）", "The first line is a pair (--no-header)"),
                key="evaluate.no_header",
                persist_state="session",
            )
        with right:
            grades = _typed(
                "grades",
                Text("标注的含义（--grades）", "What the labels mean (--grades)"),
                Text(
                    "标注=档位，或一段档位：0=1-2,1=3-4,2=5。不填：标注就是 1 到 5 档。",
                    "label=grade, or a range of grades: 0=1-2,1=3-4,2=5. Left empty: the labels are "
                    "grades 1–5.",
                ),
                "0=1-2,1=3-4,2=5",
            )
            slots["grades"] = st.empty()
            most = st.number_input(
                say(
                    "最多剔除百分之几的行（--max-rejects）",
                    "Rows that may be rejects, % (--max-rejects)",
                ),
                0.0,
                100.0,
                1.0,
                step=1.0,
                key="evaluate.max_rejects",
                help=say("10 行以内总是允许。", "Ten rows always may."),
                persist_state="session",
            )
    return ReaderOptions(columns or None, no_header, grades or None, round(most / 100, 6)), slots


def _typed(name: str, label: Text, tip: Text, example: str) -> str:
    typed = st.text_input(
        say(label),
        key=f"evaluate.{name}",
        help=say(tip),
        placeholder=example,
        max_chars=500,
        persist_state="session",
    )
    return typed.strip()


def _key(here: Here, asked: Asked) -> Hashable:
    state = here.state
    return (asked.key, here.model.sha256, state.out, state.mode, state.seed)


def _offer(here: Here, asked: Asked) -> None:
    """What will be evaluated, by which commands too, and the button."""
    model, state, file = here.model, here.state, asked.file
    st.markdown(escaped(say(sample(file))))
    show_rejects(file.rejects, file.rejected)
    whole = say("完整文件的命令", "The command for the whole file")
    with st.expander(whole, icon=":material/terminal:"):
        for command in commands(model, file, state.out, state.mode, state.seed):
            st.code(command, language="bash")
    running = JOB in st.session_state
    if st.button(say("评测", "Evaluate"), key="evaluate.go", disabled=running):
        key = _key(here, asked)

        def work(job: Job[Measured]) -> Measured:
            return measure(model, file, state.out, state.mode, job, seed=state.seed, key=key)

        units = len(file.pairs) * (2 if state.out else 1)
        st.session_state[JOB] = model.worker.start(work, units)
        st.rerun()


def sample(file: GradedFile) -> Text:
    """Which pairs are taken."""
    pairs, queries = f"{len(file.pairs):,}", f"{len({pair.query for pair in file.pairs}):,}"
    if len(file.pairs) == file.n_pairs and not file.unread:
        return Text(
            f"全部 {pairs} 对（{queries} 个查询）。", f"All {pairs} pairs ({queries} queries)."
        )
    of = f"{MOST_ROWS_READ:,}" if file.unread else f"{file.n_pairs:,}"
    return Text(
        f"按种子从{'前' if file.unread else ''} {of} 对中抽取 {pairs} 对（{queries} 个查询，按整个查询抽）。"
        "整份文件请用下面的命令。",
        f"{pairs} pairs of {queries} queries, drawn by the seed as whole queries of "
        f"{'the first ' if file.unread else ''}{of} pairs. The command below takes the whole file.",
    )


def commands(
    model: Inspected, file: GradedFile, out: Sequence[Head], mode: str, seed: int
) -> list[str]:
    """`qt-bert evaluate` on the whole file, and `compare` where heads `out` are left out."""
    folder = Path(model.scorer.checkpoint.folder).resolve()
    default = folder == shipped(GRADED).resolve()
    at = str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
    options, most = file.options, file.options.max_rejects
    given = {
        "--pairs": file.path,
        "--columns": options.columns,
        "--grades": options.grades,
        "--max-rejects": None if most == ReaderOptions().max_rejects else f"{most:g}",
        "--seed": str(seed) if seed else None,
    }
    asked = [word for name, value in given.items() if value is not None for word in (name, value)]
    asked += ["--no-header"] if options.no_header else []
    lines = [["qt-bert", "evaluate", *([] if default else ["--model", at]), *asked]]
    if out:
        heads = ["--heads-out", spell(out), *([] if mode == "zero" else ["--mode", mode])]
        lines.append(["qt-bert", "compare", at, at, *asked, *heads])
    return [shlex.join(words) for words in lines]


# How well a model grades the pairs, and what changes when heads are left out of it.


SCORING, SCORING_WITHOUT, MEASURING, COMPARING = "scoring", "without", "measuring", "comparing"
STEPS = {
    SCORING: Text("打分，完整模型", "scoring, whole model"),
    SCORING_WITHOUT: Text("打分，去掉所选的头", "scoring, heads left out"),
    MEASURING: Text("计算指标与区间", "metrics and intervals"),
    COMPARING: Text("成对比较", "paired comparison"),
}


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
    """What an evaluation found: by the whole model, and without the heads, where there are any.

    `differences` are B − A with B the masked model; `worst` are the pairs furthest from their label,
    `changed` those that the heads change most. `key` is what it was asked for, `about` says it.
    """

    key: Hashable
    about: Text
    plain: Evaluation
    worst: tuple[PairRow, ...]
    truncated: int
    without: Evaluation | None = None
    differences: dict[str, Difference] | None = None
    changed: tuple[PairRow, ...] = ()


def measure(
    model: Inspected,
    file: GradedFile,
    out: Sequence[Head],
    mode: str,
    job: Job[Measured],
    *,
    seed: int = 0,
    key: Hashable = None,
) -> Measured:
    """Evaluate the model on the pairs as `qt-bert evaluate` does, and compare as `compare` does.

    The job counts a unit a pair and model. Raises Stopped, and ArgumentError where labels and model
    do not fit.
    """
    pairs = list(file.pairs)

    def judged(heads: Sequence[Head], step: str) -> tuple[Judged, int]:
        job.advance(0, step)
        scorer = model.job_scorer(heads, mode)
        logits = scorer.logits([(pair.query, pair.title) for pair in pairs], job)
        judgements = judge_logits(logits, pairs, model.labels)
        return Judged(pairs, logits, judgements, 0), scorer.counts.truncated_titles

    def evaluated(one: Judged) -> Evaluation:
        job.advance(0, MEASURING)
        return evaluate(one.judgements, resamples=RESAMPLES, seed=seed)

    whole, truncated = judged((), SCORING)
    plain = evaluated(whole)
    about = _about(model, file, out, mode)
    worst = furthest_off(whole.judgements, WORST).tolist()
    if not out:
        rows = _rows(model, whole, None, worst)
        return Measured(key=key, about=about, plain=plain, worst=rows, truncated=truncated)
    other, _ = judged(out, SCORING_WITHOUT)
    without = evaluated(other)
    differences = {}
    for name in METRICS:  # one at a time, so that a stop is heard; the draws follow from the seed
        job.advance(0, COMPARING)
        found = compare(whole.judgements, other.judgements, metrics=[name], seed=seed)
        differences[name] = found.metrics[name]
    most = differ_most(whole.judgements, other.judgements, WORST).tolist()
    return Measured(
        key=key,
        about=about,
        plain=plain,
        without=without,
        differences=differences,
        worst=_rows(model, whole, other, worst),
        changed=_rows(model, whole, other, most),
        truncated=truncated,
    )


def _about(model: Inspected, file: GradedFile, out: Sequence[Head], mode: str) -> Text:
    """Which model was evaluated on what, and which heads were left out beside."""
    name, pairs = model.name, f"{len(file.pairs):,}"
    zh, en = f"{name} · {file.name} · {pairs} 对", f"{name} · {file.name} · {pairs} pairs"
    if not out:
        return Text(zh, en)
    heads = spell(out) if len(out) <= HEADS_NAMED else f"{spell(out[:HEADS_NAMED])} …"
    return Text(
        f"{zh} · 去掉 {len(out)} 个头：{heads}（{mode}）",
        f"{en} · without {len(out)} heads: {heads} ({mode})",
    )


def _rows(
    model: Inspected, whole: Judged, other: Judged | None, places: Sequence[int]
) -> tuple[PairRow, ...]:
    outputs = model.outputs(whole.logits)
    without = None if other is None else model.outputs(other.logits).ranking_score
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


# The figures of an evaluation, laid out.

Cell = str | int | float | Text | None
GROUPS = {
    "class": Text("分类", "classes"),
    "ordinal": Text("有序等级", "ordered grades"),
    "ranking": Text("排序", "ranking"),
    "calibration": Text("概率校准", "calibration"),
}
BETTER = {"higher": "↑", "lower": "↓", "zero": "→ 0"}
# The tables' columns in words.
TABLE = {
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


def _figures(here: Here, found: Measured) -> None:
    """Headline figures, then every metric, level by level, single pairs, and what the heads change."""
    _headline(found)
    if found.truncated:
        caption(titles_cut(found.truncated, here.model.longest))
    names = [
        Text("指标", "Metrics"),
        Text("各档", "Levels"),
        Text("偏差最大的对", "Pairs furthest off"),
        Text("去掉头的影响", "Heads left out"),
    ]
    tabs = st.tabs([say(name) for name in names[: 4 if found.differences else 3]])
    with tabs[0]:
        table(metric_rows(found.plain), TABLE, key="metrics")
        note = Text(
            f"区间：按查询自助重采样 {RESAMPLES:,} 次的 95% 区间。方向：↑ 越大越好，↓ 越小越好，→ 0 越接近 0 越好。",
            f"Intervals: 95 %, bootstrap over queries, {RESAMPLES:,} resamples. ↑ higher, ↓ lower, "
            "→ 0 nearer to zero is better.",
        )
        caption(note)
    with tabs[1]:
        _levels(found)
    with tabs[2]:
        _pairs(here, found.worst, "worst")
    if found.differences:
        with tabs[3]:
            rows = difference_rows(found.differences)
            table(rows, TABLE, key="differences", digits={"p": 4}, signed=("difference",))
            note = Text(
                f"差 = 去掉头 − 完整模型，两者用同样的重采样；p：逐查询随机交换两者的预测 {DRAWS:,} 次，双侧，"
                "未对指标个数校正。",
                "Difference = heads left out − whole model, both under the same resamples; p: the two "
                f"predictions swapped at random query by query, {DRAWS:,} times, two-sided, not corrected "
                "for the number of metrics.",
            )
            caption(note)
            st.markdown(f"**{say('去掉头后变化最大的对', 'Pairs that the heads change most')}**")
            _pairs(here, found.changed, "changed")


def _headline(found: Measured) -> None:
    """The few metrics that stay in view, as far as they are defined, and what they rest on."""
    shown = [
        (name, found.plain.metrics[name])
        for name in HEADLINES
        if found.plain.metrics[name].value is not None
    ]
    for column, (name, one) in zip(st.columns(max(len(shown), 1)), shown, strict=False):
        changed = (found.differences or {}).get(name)
        change = None if changed is None or changed.difference is None else changed.difference
        zh, en = METRICS[name].description
        queries = _queries(one.n_eligible, one.n_queries)
        about = Text(
            f"{zh}{one.n:,} 对" + (f"，可评查询 {queries}。" if queries else "。"),
            f"{en} {one.n:,} pairs" + (f", eligible queries {queries}." if queries else "."),
        )
        with column:
            metric(
                say(metric_name(name)),
                number(one.value),
                None if change is None else signed(change),
                about=say(about),
            )
            st.caption(escaped(interval(one.ci_low, one.ci_high)))
    brackets = Text("方括号内：95% 区间。", "In brackets: 95 % intervals.")
    if found.differences:
        brackets = Text(
            "大字是完整模型；箭头旁是去掉所选的头之后的变化；方括号内是完整模型的 95% 区间。",
            "Large: the whole model. Beside the arrow: the change without the heads. In brackets: the "
            "whole model's 95 % interval.",
        )
    caption(brackets)


def _levels(found: Measured) -> None:
    """Confusion, reliability and figures by level, of both models side by side."""
    if found.plain.confusion is None:
        none = Text(
            "这个模型和这些标注没有共同的档位，所以没有混淆矩阵和各档的数。",
            "This model and these labels share no levels: no confusion matrix, no figures by level.",
        )
        info(none)
        return
    both = [(BEFORE, found.plain)]
    both += [(AFTER, found.without)] if found.without else []
    for place, (column, (name, one)) in enumerate(zip(st.columns(len(both)), both, strict=True)):
        with column:
            st.markdown(f"**{say(name)}**")
            for figure in level_figures(one):
                draw(figure, key=f"{figure.name}.{place}")
            table(level_rows(one), TABLE, key=f"levels.{place}")


def level_figures(found: Evaluation) -> list[HeatMap | Curve]:
    """Confusion and reliability, as far as they are defined."""
    figures: list[HeatMap | Curve] = []
    if found.confusion is not None:
        figures.append(confusion_map(found.levels, found.confusion))
    if found.reliability is not None:
        bins = [
            ReliabilityBin(
                confidence=row["confidence"], accuracy=row["accuracy"], count=int(row["count"] or 0)
            )
            for row in found.reliability
        ]
        curve = reliability_curve(bins)
        figures += [] if curve is None else [curve]
    return figures


def level_rows(found: Evaluation) -> list[dict[str, Cell]]:
    """Precision, recall and F1 of every level; nothing where there are no levels."""
    names = ("level", "precision", "recall", "f1", "support", "predicted")
    return [{name: row[name] for name in names} for row in found.per_grade or ()]


def metric_rows(found: Evaluation) -> list[dict[str, Cell]]:
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
            "why": one.reason,
        }
        for name, one in found.metrics.items()
    ]


def difference_rows(differences: Mapping[str, Difference]) -> list[dict[str, Cell]]:
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
            "why": one.reason,
        }
        for name, one in differences.items()
    ]


def _queries(eligible: int | None, queries: int | None) -> str | None:
    return None if queries is None else f"{eligible:,}/{queries:,}"


def _pairs(here: Here, pairs: Sequence[PairRow], key: str) -> None:
    """Pairs to click: the front page then looks at the one that was clicked."""
    click = Text(
        "点一行，就在首页查看这一对。", "Click a row to look at that pair on the front page."
    )
    caption(click)
    columns = pair_columns(here.model.labels)
    chosen = table(pair_rows(pairs), columns, key=key, signed=("change",), select=True)
    if chosen is not None:
        here.open("focus", query=pairs[chosen].query, title=pairs[chosen].title)


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


def pair_rows(pairs: Sequence[PairRow]) -> list[dict[str, Cell]]:
    """Pairs as rows of a table."""
    return [
        {
            "line": one.line,
            "query": clip(one.query, TEXT_SHOWN),
            "title": clip(one.title, TEXT_SHOWN),
            "label": one.label,
            "predicted": one.predicted,
            "score": one.score,
            "without": one.score_without,
            "change": None if one.score_without is None else one.score_without - one.score,
        }
        for one in pairs
    ]


if __name__ == "__main__":
    main()
