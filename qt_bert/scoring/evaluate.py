"""`qt-bert evaluate` and `compare`: one model or two on a graded file."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.scores import cells_of, column_cells
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_folder, sha256_file
from qt_bert.models.card import ModelLabels
from qt_bert.request import LabelOptions
from qt_bert.results.evaluation import EvaluationResult, GradedPair, JudgedPairs, MetricDescription
from qt_bert.scoring.few_labels import with_judge
from qt_bert.scoring.judge import (
    JudgedFile,
    Outputs,
    PairScorer,
    default_scheme,
    hardly_differ,
    judge_file,
    judge_pairs,
    read_outputs,
    requested_calibration,
)
from qt_bert.scoring.tables import Columns, growing_table, table_beside
from qt_bert.stats.arrays import BoolArray
from qt_bert.stats.comparison import compare, graded_score
from qt_bert.stats.estimate import RESAMPLES
from qt_bert.stats.evaluation import (
    MetricValue,
    SliceErrors,
    errors_in_slices,
    evaluate,
    furthest_off,
    signed_error,
)
from qt_bert.stats.judgements import index_queries, known, name_set
from qt_bert.stats.metrics import METRICS, exponential_gain, ndcg_by_query
from qt_bert.stats.tests import q_values
from qt_bert.stats.verdict import POWER_FACTOR

EXAMPLES, WORST = 12, 50
SLICE_COLUMNS = ("field", "tags")
"""Columns of the pairs that ship whose values are slices; other files have none."""
SHOWN_IN_SLICES = (
    *("accuracy", "macro_f1", "qwk", "mae", "over_graded", "under_graded"),
    *("spearman", "ndcg_at_5"),
)


def evaluation_json(
    judged: JudgedFile,
    scorer: PairScorer,
    path: Path,
    *,
    by: tuple[str, ...] = (),
    auto_slices: bool = False,
    baseline: PairScorer | None = None,
    reader: ReaderOptions | None = None,
    count: LabelOptions = LabelOptions(),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """The evaluation of `judged`: metrics with intervals, tables, slices, the WORST pairs.

    `by` names columns to slice by; ArgumentError for a missing one. `auto_slices` adds the error rates
    of `automatic` slices, worst first; a `baseline`, every metric of it (a) and of the model (b) with the paired
    difference. `count` as for `judge_pairs` and `with_judge`, which takes the `reader`, too.
    """
    drawn: dict[str, Any] = {"resamples": resamples, "seed": seed}
    few = with_judge([judged], [scorer], path, reader or ReaderOptions(), count, **drawn)
    outputs = read_outputs(judged.logits, scorer.settings.labels, judged.calibration)
    furthest, levels = furthest_off(judged.judgements, WORST), scorer.settings.labels.levels
    ranks = judged.judgements.eligible.any() and scorer.tokenizer  # the scale of a column is any
    result = EvaluationResult(
        model=scorer.describe(),
        pairs=JudgedPairs(
            name=path.name,
            sha256=sha256_file(path),
            n_pairs=len(judged.pairs),
            n_queries=judged.judgements.n_queries,
            rejected=judged.rejected,
            unjudged=len(judged.everything[0]) - len(judged.pairs),
        ),
        outputs=() if outputs.probabilities is None else _meanings(outputs.labels),
        few_labels=few,
        **vars(evaluate(judged.judgements, **drawn)),
        descriptions={
            name: MetricDescription(**asdict(m.description), title=m.title, direction=m.direction)
            for name, m in METRICS.items()
        },
        without_grade_1={} if levels else _without_grade_1(judged, resamples, seed),
        slices={
            column: {
                value: _of_rows(judged, rows, resamples, seed)
                for value, rows in by_column(judged.pairs, column).items()
            }
            for column in by
        },
        errors=tuple(_graded_pair(judged, outputs, int(row)) for row in furthest),
        examples=_examples(judged, outputs),
        alike=hardly_differ(outputs.ranking_score) if ranks else None,
        truncated_titles=scorer.counts.truncated_titles,
        truncated_queries=scorer.counts.truncated_queries,
        auto_slices=_automatic(judged, resamples, seed) if auto_slices else None,
        guards=scorer.left_out.guards if scorer.left_out else None,
    )
    evaluation: dict[str, Any] = encode(result)
    if baseline is not None:
        check_comparable(baseline, scorer)
        first = judge_pairs(judged.everything[0], baseline, path, count=count).judgements
        changes = compare(first, judged.judgements, draws=0, most_different=0, **drawn).metrics
        evaluation["baseline"] = {"model": baseline.describe(), "metrics": encode(changes)}
    return evaluation


def _meanings(labels: ModelLabels) -> tuple[str, ...]:
    return tuple(labels.names if labels.grades is None else map(name_set, labels.grades))


def _automatic(judged: JudgedFile, resamples: int, seed: int) -> tuple[SliceErrors, ...]:
    if (reason := METRICS["accuracy"].refusal(judged.judgements)) is not None:
        raise ArgumentError(f"--auto-slices: {reason}")
    masks = automatic(judged.pairs) | mismatches(judged.pairs)
    return errors_in_slices(judged.judgements, masks, resamples=resamples, seed=seed)


def _examples(judged: JudgedFile, outputs: Outputs) -> tuple[GradedPair, ...]:
    """The first pairs of the file: whole queries, at least 12 pairs, at most 24."""
    shown: list[GradedPair] = []
    for row, pair in enumerate(judged.pairs):
        if len(shown) >= EXAMPLES and pair.query != shown[-1].query:
            break
        shown.append(_graded_pair(judged, outputs, row))
    return tuple(shown[: 2 * EXAMPLES])


def _of_rows(
    judged: JudgedFile, rows: BoolArray, resamples: int, seed: int
) -> dict[str, MetricValue]:
    """Chosen metrics of some of the pairs."""
    shown = {name: METRICS[name] for name in SHOWN_IN_SLICES}
    subset = judged.judgements.subset(rows)
    return evaluate(subset, metrics=shown, resamples=resamples, seed=seed).metrics


def _without_grade_1(judged: JudgedFile, resamples: int, seed: int) -> dict[str, MetricValue]:
    """The metrics without grade 1, whose easy titles improve every figure; empty for none."""
    rows = np.array([pair.grades != (1,) for pair in judged.pairs])
    return {} if rows.all() or not rows.any() else _of_rows(judged, rows, resamples, seed)


def _graded_pair(judged: JudgedFile, outputs: Outputs, row: int) -> GradedPair:
    """One pair with its label and the model's outputs."""
    pair = judged.pairs[row]
    graded: dict[str, Any] = {}
    if outputs.probabilities is not None and outputs.expected is not None:
        graded = {
            "p": tuple(round(float(p), 6) for p in outputs.probabilities[row]),
            "predicted_grade": (outputs.predicted or [])[row],
            "expected_grade": round(float(outputs.expected[row]), 6),
        }
    elif outputs.score is not None:
        graded = {"score": float(outputs.score[row])}
    return GradedPair(
        id=pair.id,
        line=pair.line,
        query=pair.query,
        title=pair.title,
        grade=_label(judged, row),
        **graded,
    )


def _label(judged: JudgedFile, row: int) -> str | None:
    """The label; a coarse one with the grades that it may mean, unless it is that grade."""
    pair = judged.pairs[row]
    meant = "/".join(map(str, pair.grades or ()))
    if judged.judgements.mode in ("coarse", "overlapping") and meant not in ("", pair.label):
        return f"{pair.label} = {meant}"
    return pair.label


def error_table(
    judged: JudgedFile, scorer: PairScorer, path: Path, reader: ReaderOptions
) -> Columns:
    """Every pair with its columns, its outputs and the signed `error`, largest first."""
    outputs = read_outputs(judged.logits, scorer.settings.labels, judged.calibration)
    order = furthest_off(judged.judgements, len(judged.pairs))
    added: dict[str, Any] = {"line": [pair.line for pair in judged.pairs], **outputs.columns()}
    added["error"] = signed_error(judged.judgements)
    return table_beside(judged.pairs, added, order.tolist(), path, reader)


def write_trec(folder: Path, judged: JudgedFile, scorer: PairScorer) -> float:
    """Write `qrels.txt` and `run.txt`, unjudged titles in the run alone. Queries are numbered from 0; titles have
    their `id`, else their line, else a number: the first that differ and have no spaces. A set of grades counts as
    its lowest, a level as its number from 1. Returns from which of these on a title is relevant.

    Raises ArgumentError for labels that are numbers.
    """
    if judged.judgements.mode == "numbers":
        raise ArgumentError(
            "--trec: the labels are numbers, qrels have whole grades; give their meaning by --grades"
        )
    pairs, logits = judged.everything
    scores = read_outputs(logits, scorer.settings.labels, judged.calibration).ranking_score
    index, _ = index_queries([pair.query for pair in pairs])
    numbers = range(1, len(pairs) + 1)
    for names in ([pair.id for pair in pairs], [pair.line for pair in pairs], numbers):
        ids = list(map(str, names))
        if len({*ids}) == len(ids) and all(len(name.split()) == 1 for name in ids):
            break
    grades = [min(known(pair.grades)) for pair in judged.pairs]
    relevant = judged.judgements.ranking_truth >= judged.judgements.auc_cut
    order = np.lexsort((-scores, index))
    rank = np.arange(len(order)) - np.searchsorted(index[order], index[order]) + 1
    name = "_".join(scorer.name.split())
    qrels = [f"{q} 0 {i} {g}" for q, i, g in zip(index, ids, grades, strict=False)]
    run = [
        f"{index[r]} Q0 {ids[r]} {n} {scores[r]} {name}" for r, n in zip(order, rank, strict=True)
    ]
    with atomic_folder(folder) as files:
        for file, lines in {"qrels.txt": qrels, "run.txt": run}.items():
            (files / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return min(np.array(grades)[relevant].tolist(), default=judged.judgements.auc_cut)


def query_table(judged: JudgedFile) -> dict[str, list[Any]]:
    """A row a query, sorted by the possible `gain` of the mean NDCG@5.

    `over_graded` and `under_graded` count titles by the predicted grade (one logit: by the rank), each
    with its worst title, empty if none.
    """
    judgements = judged.judgements
    error, index = signed_error(judgements), judgements.query_index
    side = error if judgements.truth is None else known(judgements.predicted) - judgements.truth
    ndcg, eligible = ndcg_by_query(judgements, exponential_gain, 5).T
    weights = judgements.weights * eligible
    gains = weights * (1 - ndcg) / max(weights.sum(), np.finfo(float).tiny)
    order = np.argsort(index, kind="stable")
    titles_of = np.split(order, np.flatnonzero(np.diff(index[order])) + 1)
    rows: list[dict[str, Any]] = []
    for query in np.argsort(-gains, kind="stable"):
        titles = titles_of[query]
        row = {"query": judged.pairs[titles[0]].query, "titles": len(titles)}
        row["ndcg_at_5"] = float(ndcg[query]) if eligible[query] else ""
        row["gain"] = float(gains[query])
        for name, sign in (("over_graded", 1), ("under_graded", -1)):
            worst = titles[np.argmax(sign * error[titles])]
            row[name] = int((sign * side[titles] > 0).sum())
            row[f"{name}_title"] = judged.pairs[worst].title if sign * error[worst] > 0 else ""
        rows.append(row)
    return {name: [row[name] for row in rows] for name in rows[0]}


def write_beside(
    out: Path, option: str, pairs: Path, reader: ReaderOptions, columns: Columns
) -> None:
    """Write a table about the file `pairs` in one step, in the format of `out`'s suffix and, of TSV and
    CSV, in the encoding of `pairs`. Raises ArgumentError, naming the `option`, for another suffix."""
    table = growing_table(out, option, reader.open(pairs).encoding)
    table.rewind(0)
    table.append(columns)
    table.finish()
    table.clear()


def compare_models(
    path: Path,
    options: ReaderOptions,
    a: Sequence[PairScorer],
    b: Sequence[PairScorer],
    *,
    most: int = 10,
    by: Sequence[str] = (),
    detect: float | None = None,
    seed: int = 0,
    rejects_path: Path | None = None,
    count: LabelOptions = LabelOptions(),
    calibrated: bool = False,
) -> dict[str, Any]:
    """Every metric of both with the paired difference, and the `most` pairs that differ most.

    `a` and `b` are a model each, or the same one trained with several seeds. `by` names columns to slice by,
    with q over all slices. `detect` is a difference: how many queries like these, and labels, would show it
    with 80 % power. `calibrated`: by the calibration in each model's folder. `count` as for `judge_file`, and for
    `with_judge`, which takes one model a side. A one-logit model and a graded one are compared by the ranking metrics; the others are null with a reason. Raises
    ArgumentError as `check_comparable` does, and for a missing column.
    """
    scorers = (*a, *b)
    for scorer in scorers[1:]:
        check_comparable(a[0], scorer)
    if detect is not None and not detect > 0:
        raise ArgumentError(f"--detect {detect}: give a difference above 0")
    if count.judge is not None and len(scorers) > 2:
        raise ArgumentError("--labels with --judge: name one model on each side, no seeds")
    reader = count.read_by(options)
    first, *applied = (requested_calibration(scorer, calibrated) for scorer in scorers)
    file = judge_file(
        path,
        reader,
        a[0],
        others=scorers[1:],
        calibration=first,
        rejects_path=rejects_path,
        count=count,
    )
    masks = {column: by_column(file.pairs, column) for column in by}
    rest = (
        judge_pairs(file.everything[0], scorer, path, calibration=how, count=count)
        for scorer, how in zip(scorers[1:], applied, strict=True)
    )
    files = [file, *rest]
    few = with_judge(files, scorers, path, reader, count, detect=detect, seed=seed)
    judged = [each.judgements for each in files]
    sides = judged[: len(a)], judged[len(a) :]
    scores = list(map(graded_score, sides))
    compared = compare(*sides, seed=seed, most_different=most)
    result: dict[str, Any] = {
        "schema": 1,
        "a": a[0].describe() if len(a) == 1 else [scorer.describe() for scorer in a],
        "b": b[0].describe() if len(b) == 1 else [scorer.describe() for scorer in b],
        "n_pairs": len(file.pairs),
        "rejected": file.rejected,
        "metrics": encode(compared.metrics),
        "settings": compared.settings | ({"calibrated": True} if calibrated else {}),
        "most_different": [
            {name: getattr(file.pairs[i], name) for name in ("id", "line", "query", "title")}
            | {"grade": file.pairs[i].label, "a": float(scores[0][i]), "b": float(scores[1][i])}
            for i in compared.most_different
        ],
    } | ({"guards": dict(b[0].left_out.guards)} if b[0].left_out else {})
    if few is not None:
        result["few_labels"] = few

    def inside(rows: BoolArray) -> dict[str, dict[str, Any]]:
        both = [[model.subset(rows) for model in side] for side in sides]
        changes = compare(*both, metrics=SHOWN_IN_SLICES, seed=seed, most_different=0)
        return encode(changes.metrics)  # type: ignore[no-any-return]

    result["slices"] = {
        column: {value: inside(rows) for value, rows in values.items()}
        for column, values in masks.items()
    }
    of_slices = [
        change
        for slices in result["slices"].values()
        for metrics in slices.values()
        for change in metrics.items()
    ]
    for family in (list(result["metrics"].items()), of_slices):
        for (name, change), q in zip(family, q_values([c["p"] for _, c in family]), strict=True):
            change["q"] = q
            # PNR has no upper end: a difference of .01 says nothing there
            if detect is not None and name != "pnr" and change["ci_low"] != change["ci_high"]:
                half = (change["ci_high"] - change["ci_low"]) / 2
                more = POWER_FACTOR * (half / detect) ** 2
                change["queries"] = ceil(more * change["n_queries"])
                change["labels"] = ceil(more * change["n"])
    return result


def check_comparable(a: PairScorer, b: PairScorer) -> None:
    """Raise ArgumentError where one model has levels and the other grades: no figure is comparable."""
    if default_scheme(a.settings.labels) != default_scheme(b.settings.labels):
        raise ArgumentError(
            f"{a.name} and {b.name} have outputs of different kinds; give the grades of their logits "
            "by --model-grades and --model-grades-b, or in their qt_bert.json"
        )


def by_column(pairs: Sequence[Pair], column: str) -> dict[str, BoolArray]:
    """Value of a column (`grade`: the label) → which pairs have it [n]; a cell may hold several comma-separated
    values, an empty one has `(none)`. Raises ArgumentError for a missing column.
    """
    cells = column_cells(map(cells_of, pairs), column, f"--by {column}")
    tags = [{tag.strip() for tag in cell.split(",")} - {""} or {"(none)"} for cell in cells]
    return {tag: np.array([tag in of for of in tags]) for tag in sorted(set().union(*tags))}


_PATTERNS = {
    "number": re.compile(r"\d"),
    "Latin letters": re.compile("[a-z]"),
    # Not in words without negation: 不锈钢, 无线, 未来, 特别, 别墅.
    "negation": re.compile(
        "不(?![锈同过仅但如错])|没|无(?![线锡])|勿|未(?!来)|禁止|"
        "(?<![特区类级性识分个告])别(?![墅名克人的])"
    ),
    "question word": re.compile("怎|如何|什么|啥|哪|谁|多少|几(?![何乎])|为何|吗|是否|还是|有没有"),
}


def character_overlap(query: str, title: str) -> float:
    """The share of the query's distinct characters, ignoring case, that the title has."""
    characters = set("".join(query.casefold().split()))
    return len(characters & set(title.casefold())) / len(characters) if characters else 0.0


_PLACES = (
    "北京 上海 天津 重庆 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南 广东 海南 四川 "
    "贵州 云南 陕西 甘肃 青海 台湾 内蒙古 广西 西藏 宁夏 新疆 香港 澳门 石家庄 太原 沈阳 大连 长春 哈尔滨 南京 "
    "苏州 无锡 杭州 宁波 温州 合肥 福州 厦门 南昌 济南 青岛 郑州 洛阳 武汉 长沙 广州 深圳 珠海 佛山 东莞 南宁 "
    "桂林 海口 三亚 成都 贵阳 昆明 大理 拉萨 西安 兰州 西宁 银川 乌鲁木齐 呼和浩特 台北"
)
_NAMED = {
    "year": re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)"),
    "number": re.compile(r"(?<![\d.])(?!(?:19|20)\d\d(?!\d))\d+(?:\.\d+)?"),
    "Latin name": re.compile("[a-z][a-z0-9+#-]*"),
    "place": re.compile(_PLACES.replace(" ", "|")),
}


def normalised(text: str) -> str:
    """Half-width and in lower case, as Unicode has it."""
    return unicodedata.normalize("NFKC", text).casefold()


def mismatches(pairs: Sequence[Pair]) -> dict[str, BoolArray]:
    """Slice → the pairs [n] whose title lacks or changes a year, number, Latin name or place."""
    texts = [tuple(map(normalised, (pair.query, pair.title))) for pair in pairs]
    slices: dict[str, BoolArray] = {}
    for kind, pattern in _NAMED.items():
        lacks, other = np.zeros((2, len(pairs)), dtype=bool)
        for row, both in enumerate(texts):
            query, title = (set(pattern.findall(text)) for text in both)
            lacks[row], other[row] = query > title & query, bool(title - query)
        slices[f"{kind} not in the title"] = lacks & ~other
        slices[f"{kind} unlike the title's"] = lacks & other
    return slices


def automatic(pairs: Sequence[Pair]) -> dict[str, BoolArray]:
    """Slice → which pairs [n]: the lowest and highest quarter by lengths and shared characters; queries
    with numbers, Latin letters, negation or question words (full-width ones too)."""
    queries = [normalised(pair.query) for pair in pairs]
    slices: dict[str, BoolArray] = {}
    for name, values in (
        ("query length", [len(pair.query) for pair in pairs]),
        ("title length", [len(pair.title) for pair in pairs]),
        ("% of the query in the title", [100 * character_overlap(p.query, p.title) for p in pairs]),
    ):
        # Quartiles that occur among the values: a rounded one would name other pairs than the mask has.
        low = np.quantile(values, 0.25, method="lower")
        high = np.quantile(values, 0.75, method="higher")
        if low < high:
            slices[f"{name} ≤ {low:.0f}"] = np.asarray(values) <= low
            slices[f"{name} ≥ {high:.0f}"] = np.asarray(values) >= high
    for name, pattern in _PATTERNS.items():
        slices[name] = np.array([bool(pattern.search(query)) for query in queries])
    return slices
