"""Evaluate: a labelled file, by the whole model and with heads left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import sample_queries, spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.heads import Head, format_heads
from qt_bert.models.card import ModelLabels
from qt_bert.page.maps import score_columns, titles_cut
from qt_bert.page.model import SharedModel
from qt_bert.page.pairs import (
    MOST_CHARACTERS,
    UPLOADED_SUFFIXES,
    RefusedFile,
    listed_rejects,
    shown_name,
    uploaded,
)
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import (
    Row,
    caption,
    choose,
    escaped,
    finished,
    localised,
    metric,
    show_rejects,
    table,
    watch,
)
from qt_bert.page.work import Job
from qt_bert.scoring.judge import graded_pairs, judge_logits
from qt_bert.shipped import TEST, shipped
from qt_bert.stats.comparison import DRAWS, MetricDifference, compare, differ_most
from qt_bert.stats.estimate import query_key
from qt_bert.stats.evaluation import Evaluation, evaluate, furthest_off
from qt_bert.stats.metrics import METRICS, in_both_languages
from qt_bert.text import Text, clip, interval, number, signed

# At most so many pairs are evaluated, and rows read before the draw.
MOST_PAIRS, MOST_ROWS_READ = 2_000, 100_000
RESAMPLES, WORST, MESSAGE, HEADS_NAMED = 2_000, 50, 600, 40
HEADLINES = ("accuracy", "qwk", "spearman", "ndcg_at_5")
BETTER = {"higher": "↑", "lower": "↓", "zero": "→ 0"}
STEPS = {
    "scoring": Text("打分，完整模型", "scoring, whole model"),
    "without": Text("打分，去掉所选的头", "scoring, heads left out"),
    "measuring": Text("计算指标与区间", "metrics and intervals"),
    "comparing": Text("配对比较", "paired comparison"),
}
# The session's keys of the read file, the upload, the job and the last result.
READ, UPLOAD, JOB, RESULT = (f"evaluate.{name}" for name in ("read", "upload", "job", "result"))


@dataclass(frozen=True, kw_only=True)
class GradedFile:
    """The pairs to evaluate, drawn from the first `n_pairs` of a file; `unread` if it has more.

    `whole`: all pairs of every drawn query. `rejects` are the first of the `rejected` rows.
    """

    name: str
    pairs: tuple[Pair, ...]
    n_pairs: int
    whole: bool
    unread: bool
    rejected: int
    rejects: tuple[Reject, ...]


class FileFault(RefusedFile):
    """Why a file cannot be evaluated, with its rejects."""

    def __init__(self, message: Text, rejects: Sequence[Reject] = ()) -> None:
        super().__init__(Text(clip(message.zh, MESSAGE), clip(message.en, MESSAGE)))
        self.rejects = tuple(rejects)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """An evaluation of the whole model (`plain`), compared with the model without the heads, if any.

    `differences` are without − whole; `worst` are the pairs furthest from their label, `changed` those
    that change most, as rows of a table with `columns`. `key` names the request, `about` describes it;
    `cut` says that titles were cut.
    """

    key: Hashable
    about: Text
    plain: Evaluation
    differences: dict[str, MetricDifference]
    worst: list[Row]
    changed: list[Row]
    columns: dict[str, Text]
    cut: Text | None


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(localised("评测：带标注的文件", "Evaluate: a labelled file"))
    caption(
        f"把模型的打分与标注比较；去掉头时再评一次，并做配对比较。最多 {MOST_PAIRS:,} 对。",
        "The model's grades against labels; with heads left out, again without them, and both compared. "
        f"At most {MOST_PAIRS:,} pairs.",
    )
    session = st.session_state
    result = finished(JOB)
    if result is not None:
        session[RESULT] = result
    file, request = _file(here)
    state = here.state
    key = (request, here.model.sha256, state.out, state.mode if state.out else "")
    if file is not None:
        _offer(here, file, key)
    if JOB in session:
        watch(session[JOB], steps=STEPS, key="evaluate")
    elif RESULT in session:
        last: Measured = session[RESULT]
        st.subheader(escaped(localised(last.about)))
        if file is None or last.key != key:
            st.warning(
                localised("以下是其他设置下的结果。", "These are the figures of other settings.")
            )
        _figures(here, last)


# The labelled file: the shipped test split, or an upload with its columns and labels.


def _file(here: Visit) -> tuple[GradedFile | None, Hashable]:
    """The visitor's file, None where there is none yet or it is refused; and its key."""
    names = {
        "shipped": Text("自带测试集", "the shipped test set"),
        "upload": Text("上传文件", "an upload"),
    }
    source = choose(Text("文件", "File"), names, "evaluate.source")
    name, data, options = "", None, ReaderOptions()
    if source == "upload":
        upload = _upload()
        options = _options()
        if upload is None:
            return None, None
        name, data = upload
    labels, seed = here.model.labels, here.state.seed
    sha256 = None if data is None else hashlib.sha256(data).hexdigest()
    key = (sha256, name, options, labels, seed)
    if st.session_state.get(READ, (None,))[0] != key:
        file, fault = None, None
        try:
            file = read_graded(data, name, options, labels, seed)
        except FileFault as error:
            fault = error.with_traceback(None)
        st.session_state[READ] = (key, file, fault)
    _, file, fault = st.session_state[READ]
    if fault is not None:
        st.error(escaped(localised(fault.message)), icon=":material/block:")
        show_rejects(fault.rejects, len(fault.rejects))
    return file, key


def _upload() -> tuple[str, bytes] | None:
    """Name and bytes of the upload, kept in this session alone."""

    def hold() -> None:
        file = st.session_state["evaluate.file"]
        st.session_state[UPLOAD] = None if file is None else (file.name, file.getvalue())

    st.file_uploader(
        localised("带标注的文本对文件（不超过 10 MB）", "File of labelled pairs (10 MB at most)"),
        type=[suffix.removeprefix(".") for suffix in UPLOADED_SUFFIXES],
        max_upload_size=10,
        key="evaluate.file",
        help=localised(
            "每行一对：query、title、grade 三列（TSV、CSV 或 JSON Lines，UTF-8 或 GB18030）。",
            "A pair a line with the columns query, title, grade (TSV, CSV or JSON Lines; UTF-8 or "
            "GB18030).",
        ),
        on_change=hold,
    )
    upload: tuple[str, bytes] | None = st.session_state.get(UPLOAD)
    if upload is not None:
        caption(
            f"{upload[0]} 只在本次会话的内存里，不在链接里，别人看不到。",
            f"{upload[0]} stays in this session's memory and in no link: others do not see it.",
        )
        if st.session_state.get("evaluate.file") is None:  # the visitor left the page and came back
            remove = localised("移除这份文件", "Remove this file")
            st.button(remove, on_click=lambda: st.session_state.pop(UPLOAD, None))
    return upload


def _options() -> ReaderOptions:
    """The options of `qt-bert evaluate` as fields."""
    kept: dict[str, Any] = {"persist_state": "session"}
    with st.expander(
        localised("列名与标注的含义", "Columns, and what the labels mean"), expanded=True
    ):
        left, right = st.columns(2)
        columns = left.text_input(
            localised("列名（--columns）", "Columns (--columns)"),
            key="evaluate.columns",
            help=localised(
                "没有表头时写列号，从 1 数", "without a header: positions, counted from 1"
            ),
            placeholder="query=q,title=t,grade=label",
            max_chars=500,
            **kept,
        )
        no_header = left.checkbox(
            localised("没有表头（--no-header）", "No header (--no-header)"),
            key="evaluate.no_header",
            **kept,
        )
        grades = right.text_input(
            localised("标注的含义（--grades）", "What the labels mean (--grades)"),
            key="evaluate.grades",
            help=localised(
                "不填：标注为 1 到 5 档，3-4 表示 3 或 4",
                "left empty: grades 1–5; 3-4 means 3 or 4",
            ),
            placeholder="0=1-2,1=3-4,2=5",
            max_chars=500,
            **kept,
        )
        most = right.number_input(
            localised("最多剔除的行，%（--max-rejects）", "Rejects allowed, % (--max-rejects)"),
            0.0,
            100.0,
            100 * ReaderOptions().max_rejects,
            step=1.0,
            key="evaluate.max_rejects",
            **kept,
        )
    columns, grades = columns.strip() or None, grades.strip() or None
    return ReaderOptions(columns, no_header, grades, round(most / 100, 6))


def read_graded(
    data: bytes | None, name: str, options: ReaderOptions, labels: ModelLabels, seed: int = 0
) -> GradedFile:
    """The pairs of an upload (None: of the shipped test split), with labels that fit this model.

    An upload is on disk only while it is read, in a folder that only this user can open. Raises
    FileFault.
    """

    def read(path: Path, shown: str, listed: Path | None) -> GradedFile:
        most = MOST_ROWS_READ + 1
        pairs, rejected = graded_pairs(path, options, labels, rejects_path=listed, most=most)
        first = pairs[:MOST_ROWS_READ]
        drawn = draw_pairs(first, seed)
        # Raises for labels that do not fit the model, before it scores anything.
        judge_logits(np.zeros((len(drawn), labels.logits), np.float32), drawn, labels)
        return GradedFile(
            name=shown,
            pairs=tuple(drawn),
            n_pairs=len(first),
            whole=_sizes(drawn).items() <= _sizes(first).items(),
            unread=len(pairs) > len(first),
            rejected=rejected,
            rejects=listed_rejects(listed),
        )

    rejects: tuple[Reject, ...] = ()
    try:
        if data is None:
            return read(shipped(TEST), Path(TEST).name, None)
        with uploaded(data, name) as path:
            listed = path.with_name("rejects.tsv")
            try:
                return read(path, shown_name(name), listed)
            except ArgumentError as error:
                raise PairFileError(str(error)) from error
            finally:
                rejects = listed_rejects(listed)
    except RefusedFile as error:
        raise FileFault(error.message, rejects) from error
    except (ArgumentError, PairFileError) as error:
        why = str(error).replace(f"{shipped(TEST).parent}/", "")
        raise FileFault(
            Text(
                f"自带测试集不适用于这个模型：{why}",
                f"the shipped test set does not fit this model: {why}",
            )
        ) from error


def draw_pairs(pairs: Sequence[Pair], seed: int = 0) -> list[Pair]:
    """At most `MOST_PAIRS` pairs, in file order: whole queries, drawn by their text and `seed`.

    Where one query has more than half of them, pairs spread over as many queries as possible.
    """
    if len(pairs) <= MOST_PAIRS:
        return list(pairs)
    largest = max(_sizes(pairs).values())
    if 2 * largest > MOST_PAIRS:
        return spread_over_queries(pairs, MOST_PAIRS, seed)
    return sample_queries(pairs, MOST_PAIRS - largest + 1, seed)


def _sizes(pairs: Sequence[Pair]) -> Counter[Hashable]:
    return Counter(query_key(pair.query) for pair in pairs)


def _offer(here: Visit, file: GradedFile, key: Hashable) -> None:
    """The pairs that will be evaluated, and the button."""
    model, state = here.model, here.state
    st.markdown(escaped(localised(sample(file))))
    show_rejects(file.rejects, file.rejected)
    running = JOB in st.session_state
    if st.button(localised("评测", "Evaluate"), key="evaluate.go", disabled=running):

        def work(job: Job[Measured]) -> Measured:
            return measure(model, file, state.out, state.mode, job, seed=state.seed, key=key)

        units = len(file.pairs) * (2 if state.out else 1)
        st.session_state[JOB] = model.worker.start(work, units)
        st.rerun()


def sample(file: GradedFile) -> Text:
    """Which pairs are evaluated."""
    queries = f"{len({query_key(pair.query) for pair in file.pairs}):,}"
    pairs = f"{len(file.pairs):,}"
    if len(file.pairs) == file.n_pairs and not file.unread:
        return Text(
            f"全部 {pairs} 对（{queries} 个查询）。", f"All {pairs} pairs ({queries} queries)."
        )
    first = ("前 ", "the first ") if file.unread else ("", "")
    whole = ("，整个查询一起抽", "whole ") if file.whole else ("", "")
    return Text(
        f"从{first[0]}{file.n_pairs:,} 对中按种子抽取 {pairs} 对（{queries} 个查询{whole[0]}）。"
        "评整份文件请用命令 qt-bert evaluate。",
        f"{pairs} pairs: {queries} {whole[1]}queries, drawn by the seed from {first[1]}{file.n_pairs:,} pairs. "
        "The command qt-bert evaluate takes the whole file.",
    )


# The evaluation.


def measure(
    model: SharedModel,
    file: GradedFile,
    out: Sequence[Head],
    mode: str,
    job: Job[Measured],
    *,
    seed: int = 0,
    key: Hashable = None,
) -> Measured:
    """Evaluate the model on the pairs as `qt-bert evaluate` does, and compare as `compare` does.

    The job counts pairs, of each model. Raises Stopped, and ArgumentError where labels do not fit the
    model.
    """
    pairs = list(file.pairs)
    judged, outputs, truncated = [], [], 0
    for step, heads in (("scoring", ()), ("without", out))[: 2 if out else 1]:
        job.advance(0, step)
        scorer = model.job_scorer(heads, mode)
        logits = scorer.logits([(pair.query, pair.title) for pair in pairs], job)
        truncated = scorer.counts.truncated_titles
        judged.append(judge_logits(logits, pairs, model.labels))
        outputs.append(model.outputs(logits))
    job.advance(0, "measuring")
    plain = evaluate(judged[0], resamples=RESAMPLES, seed=seed)

    differences = {}
    for name in METRICS if out else ():  # one at a time, so that a stop takes effect
        job.advance(0, "comparing")
        differences[name] = compare(*judged, metrics=[name], seed=seed).metrics[name]

    def row(at: int) -> Row:
        scores = [float(output.ranking_score[at]) for output in outputs]
        return {
            "line": pairs[at].line,
            "query": pairs[at].query[:MOST_CHARACTERS],
            "title": pairs[at].title[:MOST_CHARACTERS],
            "label": pairs[at].label,
            "predicted": None if outputs[0].predicted is None else outputs[0].predicted[at],
            "score": scores[0],
            "without": scores[1] if out else None,
            "change": scores[1] - scores[0] if out else None,
        }

    return Measured(
        key=key,
        about=_about(model, file, out, mode),
        plain=plain,
        differences=differences,
        worst=list(map(row, furthest_off(judged[0], WORST).tolist())),
        changed=list(map(row, differ_most(judged[:1], judged[1:], WORST).tolist())) if out else [],
        columns=score_columns(model.labels),
        cut=titles_cut(truncated, model.longest) if truncated else None,
    )


def _about(model: SharedModel, file: GradedFile, out: Sequence[Head], mode: str) -> Text:
    """The model, the file, and the heads left out."""
    of, pairs = f"{model.name} · {file.name}", f"{len(file.pairs):,}"
    heads = f"{clip(format_heads(out), HEADS_NAMED)} ({mode})"
    return Text(
        f"{of} · {pairs} 对" + (f" · 去掉 {heads}" if out else ""),
        f"{of} · {pairs} pairs" + (f" · without {heads}" if out else ""),
    )


def _figures(here: Visit, result: Measured) -> None:
    """Headline figures, then every metric, then single pairs."""
    _headline(result)
    if result.cut is not None:
        caption(result.cut)
    names = [Text("指标", "Metrics"), Text("偏差最大的样本", "Furthest off")]
    if result.changed:
        names.append(Text("变化最大的对", "Most changed"))
    metrics, worst, *changed = st.tabs([localised(name) for name in names])
    with metrics:
        _metrics(result)
    with worst:
        _pairs(here, result.worst, result.columns, "worst")
    for tab in changed:
        with tab:
            _pairs(here, result.changed, result.columns, "changed")


def _headline(result: Measured) -> None:
    """The headline metrics that are defined."""
    headlines = {name: result.plain.metrics[name] for name in HEADLINES}
    shown = {name: value for name, value in headlines.items() if value.value is not None}
    for column, (name, value) in zip(st.columns(max(len(shown), 1)), shown.items(), strict=False):
        paired = result.differences.get(name)
        change = None if paired is None or paired.difference is None else signed(paired.difference)
        with column:
            about = localised(METRICS[name].description)
            metric(localised(METRICS[name].title), number(value.value), change, about=about)
            st.caption(escaped(interval(value.ci_low, value.ci_high)))
    caption(
        "完整模型及 95% 区间；箭头：去掉头后的变化。",
        "The whole model with 95 % intervals; the arrow is the change without the heads.",
    )


def _metrics(result: Measured) -> None:
    """Every metric of both models, the paired difference and its test."""
    columns = {
        "metric": Text("指标", "metric"),
        "value": Text("完整模型", "whole model"),
        "interval": Text("95% 区间", "95 % interval"),
        "without": Text("去掉头", "heads left out"),
        "difference": Text("差", "difference"),
        "difference_interval": Text("差的 95% 区间", "its 95 % interval"),
        "p": Text("p 值", "p"),
        "better": Text("方向", "better"),
        "pairs": Text("对数", "pairs"),
        "queries": Text("可评查询", "eligible queries"),
        "why": Text("无值或无区间的原因", "why there is no value or interval"),
    }
    table(metric_rows(result), columns, key="metrics", digits={"p": 4}, signed=("difference",))
    caption(
        f"区间：按查询自助抽样 {RESAMPLES:,} 次。差 = 去掉头 − 完整模型；p：按查询随机交换两者的预测 "
        f"{DRAWS:,} 次，双侧，未做多重检验校正。",
        f"Intervals: bootstrap over queries, {RESAMPLES:,} resamples. Difference = heads left out − "
        f"whole model; p: predictions swapped at random by query, {DRAWS:,} times, two-sided, not "
        "corrected for multiple tests.",
    )


def metric_rows(result: Measured) -> list[Row]:
    """Every metric with its interval and base, or why it has no value."""
    rows: list[Row] = []
    for name, whole in result.plain.metrics.items():
        queries = None if whole.n_queries is None else f"{whole.n_eligible:,}/{whole.n_queries:,}"
        row: Row = {
            "metric": METRICS[name].title,
            "value": whole.value,
            "interval": interval(whole.ci_low, whole.ci_high) or None,
            "better": BETTER[METRICS[name].direction],
            "pairs": whole.n,
            "queries": queries,
            "why": in_both_languages(whole.reason),
        }
        if (paired := result.differences.get(name)) is not None:
            ends = interval(paired.ci_low, paired.ci_high) or None
            row |= {"without": paired.value_b, "difference": paired.difference, "p": paired.p}
            row |= {
                "difference_interval": ends,
                "why": in_both_languages(whole.reason or paired.reason),
            }
        rows.append(row)
    return rows


def _pairs(here: Visit, rows: Sequence[Row], scores: dict[str, Text], key: str) -> None:
    """Pairs as a table; a click opens a pair on the front page."""
    caption("点一行，在首页查看这一对。", "Click a row to look at that pair on the front page.")
    columns = {"line": Text("行", "line"), "query": Text("查询", "query")}
    chosen = table(rows, columns | scores, key=key, signed=("change",), select=True)
    if chosen is not None:
        here.open("focus", query=rows[chosen]["query"], title=rows[chosen]["title"])


if __name__ == "__main__":
    main()
