"""The behaviour card: of a study, or judged here, and what leaving heads out does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, partial

import numpy as np

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.splits import sample_queries
from qt_bert.figures import Bars, BarSeries, Figure, Token, TokenLine, Tokens
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.inspected import Inspected, sliced_logits
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.turns import Job
from qt_bert.inspection.views.evaluation import SCORING, SCORING_WITHOUT
from qt_bert.inspection.views.phrases import AFTER, BEFORE, score_name, score_unit
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.probes.behaviour import (
    RIGHT,
    UNDECIDED,
    WRONG,
    Band,
    Judged,
    fixed_band,
    measured_band,
    ranked_pairs,
)
from qt_bert.probes.behaviour_cases import (
    ALIKE,
    BETTER,
    Case,
    Cases,
    Relation,
    read_cases,
    titles_then_others,
)
from qt_bert.progress import Progress, silent
from qt_bert.results.head_sets import PHENOMENA, phenomenon_name
from qt_bert.results.probe import Measurement
from qt_bert.shipped import BEHAVIOURS, DEV, shipped
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate
from qt_bert.text import Text, interval, number

# What the page on behaviours says.


TITLE = Text(
    "行为卡：模型分得清什么，又被什么带偏", "Behaviour card: what it tells, what misleads it"
)
INTRO = Text(
    "一个案例是一条查询和两个标题。“应当更好”：第一个标题明显更合查询，分数应当更高；“应当相同”：改动不该影响"
    "分数。相差不到容差的不算高低。在左栏选了要去掉的头，就看去掉之后哪些行为变了。",
    "A case is a query and two titles. Better: the first serves the query clearly better and should "
    "score higher; alike: the change should not move the score. Differences within the band count "
    "as none. With heads left out on the left, see which behaviours change.",
)
RELATIONS: dict[Relation, Text] = {
    BETTER: Text("应当更好", "better"),
    ALIKE: Text("应当相同", "alike"),
}
CASE_SCORE = Text("得分（判对减判错，除以案例数）", "score: (right − wrong) / cases")
UNITS = {"grade": Text("档", "grade"), "level": Text("级", "level"), "score": Text("分", "score")}
WAYS = (BEFORE, AFTER)
OUTCOMES: dict[int, Text] = {
    RIGHT: Text("对", "right"),
    UNDECIDED: Text("未定", "undecided"),
    WRONG: Text("错", "wrong"),
}

STORED = Text("研究里的行为卡", "The card of the study")
NONE_STORED = Text(
    "这个模型的研究里还没有行为卡；可以在这里用自带的案例现算。",
    "No study of this model has a card yet; it can be made here from the cases that ship.",
)
HERE = Text("在这里判全部案例", "All cases, judged here")
JUDGE = Text("判全部案例", "Judge all cases")
JUDGE_WITHOUT = Text("去掉所选的头，再判全部案例", "Judge all cases without the chosen heads")
STOPPED = Text("已停止，没有结果。", "Stopped; there is no result.")
PAIRS = Text("对", "pairs")
NUMBERS = Text("全部数字", "All numbers")
CASES = Text("案例，判得最差的在前", "The cases, worst first")
PHENOMENON = Text("现象", "Phenomenon")
CLICK = Text("点一行，看那个案例。", "Click a row to look at the case.")
OPEN_TITLE = Text("在首页看第一个标题", "The first title on the front page")
OPEN_OTHER = Text("在首页看第二个标题", "The second title on the front page")

OWN = Text("换成你自己的标题", "Two titles of your own")
OWN_ABOUT = Text(
    "查询和第一个标题在左栏，第二个写在这里。",
    "The query and the first title stand on the left; type the second here.",
)
OTHER = Text("第二个标题", "Second title")
RELATION = Text("第一个标题与第二个相比", "The first title, beside the second, is")
SWAP = Text("两个标题对调", "Swap the titles")
ADD = Text("加入我的案例", "Add to my cases")
DELTA = Text("第一个标题的分减第二个的", "the first title's score less the second's")
SAME = Text(
    "两个标题相同或有一个为空，没有可比的。",
    "The titles are the same, or one is empty: there is nothing to compare.",
)
NOT_IN_LINK = Text(
    "第二个标题和你的案例不在链接里，只在本次会话里。",
    "The second title and your cases are in no link: this session alone holds them.",
)
KNOWN = Text("这个案例已经在里面了。", "This case is among them already.")
MY_CASES = Text("我的案例", "My cases")
REMOVE = Text("删去选中的一行", "Remove the row chosen")
CLEAR = Text("全部删去", "Remove all")
SAVE_CASES = Text("保存为案例文件（TSV）", "Save as a file of cases (TSV)")
COMMAND = Text(
    "用这份文件跑完整的探针，逐层看哪些头承载哪种行为：",
    "The whole probe on this file, with the layers that carry each behaviour:",
)
ONE_HALF = Text(
    "命令要把查询分成两半，一半选头，一半检验；现在的查询都在同一半里，再加一条别的查询的案例。",
    "The command parts queries into two halves, to choose heads on one and test on the other; all of "
    "these fall into one half: add a case of another query.",
)

LINE_COLUMNS: dict[str, Text] = {
    "phenomenon": PHENOMENON,
    "relation": Text("预期", "expected"),
    "n": Text("案例", "cases"),
    "right": OUTCOMES[RIGHT],
    "undecided": OUTCOMES[UNDECIDED],
    "wrong": OUTCOMES[WRONG],
    "score": Text("得分", "score"),
    "interval": Text("95% 区间", "95 % interval"),
    "delta": Text("平均差", "mean difference"),
    "without": Text("得分，去掉头", "score, heads left out"),
    "change": Text("得分变化", "change of the score"),
    "change_interval": Text("变化的 95% 区间", "its 95 % interval"),
}
STORED_COLUMNS: dict[str, Text] = {
    "phenomenon": PHENOMENON,
    "score": LINE_COLUMNS["score"],
    "interval": LINE_COLUMNS["interval"],
}


def case_columns(score: Text) -> dict[str, Text]:
    """The columns of a table of cases; `score` is what titles are ranked by."""
    return {
        "id": Text("编号", "id"),
        "outcome": Text("判得", "outcome"),
        "delta": Text("差", "difference"),
        "outcome_without": Text("判得，去掉头", "outcome, heads left out"),
        "delta_without": Text("差，去掉头", "difference, heads left out"),
        "query": Text("查询", "query"),
        "title": Text("第一个标题", "first title"),
        "other": Text("第二个标题", "second title"),
        "first": Text(f"{score.zh}，第一个", f"{score.en}, first"),
        "second": Text(f"{score.zh}，第二个", f"{score.en}, second"),
    }


def difference(way: Text) -> Text:
    """How far the titles part, by one way to run the model."""
    return Text(f"差，{way.zh}", f"difference, {way.en}")


def band_said(band: Band) -> Text:
    """The band in a few words."""
    unit = UNITS[band.unit]
    if band.gaps is None:
        return Text(f"{band.value:g} {unit.zh}", f"{band.value:g} {unit.en}")
    return Text(
        f"{band.value:.3g} {unit.zh}（模型自己的排序里，相邻标题分差的中位数，{band.source}）",
        f"{band.value:.3g} {unit.en} (the median gap between neighbours in the model's own ranking, "
        f"{band.source})",
    )


def band(found: Band) -> Text:
    """How large a difference counts as none."""
    said = band_said(found)
    return Text(f"容差：{said.zh}", f"Band: {said.en}")


def rests_on(cases: int, queries: int, band: Band, digest: str) -> Text:
    """What the figures rest on, and how sure they are."""
    said = band_said(band)
    return Text(
        f"全部 {cases:,} 个案例、{queries:,} 条查询，容差 {said.zh}，案例文本的 SHA-256 以 {digest} 开头。"
        "线段是按查询重抽的 95% 区间；这里不做检验。",
        f"All {cases:,} cases of {queries:,} queries, band {said.en}; SHA-256 of their texts begins "
        f"with {digest}. Whiskers: 95 % intervals over queries; nothing is tested here.",
    )


def judging(pairs: int) -> Text:
    """What the button sets off."""
    return Text(
        f"要给 {pairs:,} 对打分，可以随时停止。", f"{pairs:,} pairs to score; it can be stopped."
    )


def full(most: int) -> Text:
    """No further case is taken."""
    return Text(f"至多 {most} 个案例。", f"{most} cases at most.")


# Behaviour cases scored by a model that is open: all in slices of a job, or a few at once.


BAND_PAIRS = 128
"""Pairs of dev that the band of a model of one logit is measured on here."""

Way = tuple[tuple[Head, ...], str]
"""The heads left out, and what replaces them."""
_PLAIN: Way = ((), "")


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model gives the titles [cases] and the others [cases]: expected grades, or its logit.

    `truncated` titles were cut at the model's length.
    """

    titles: FloatArray
    others: FloatArray
    truncated: int


@cache
def shipped_cases() -> Cases:
    """The cases that ship. Raises ArgumentError where this installation has none."""
    return read_cases(shipped(BEHAVIOURS))


def band_here(inspected: Inspected) -> Band:
    """The probe's band; of a model of one logit measured on the dev pairs that ship, once a model."""
    fixed = fixed_band(inspected.labels)
    return _bands.get(inspected.key, lambda: _measured(inspected)) if fixed is None else fixed


def kept_scores(
    inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str
) -> Scores | None:
    """The scores of `score_cases`, where they were computed and are kept."""
    return _kept_scores.find(_key(inspected, cases, *_way(out, mode)))


def score_cases(
    inspected: Inspected,
    cases: Cases,
    out: Sequence[Head],
    mode: str,
    job: Job,
    shown: Progress = silent,
) -> None:
    """Score all cases by the whole model, and (where `out` names heads) without these, and keep it.

    What is kept already is not computed again. The model runs in slices of `job`; `shown` counts
    pairs as `units` says, its notes are steps of `evaluation.STEPS`. Raises Stopped.
    """
    for way in _missing(inspected, cases, out, mode):
        shown.advance(0, SCORING_WITHOUT if way[0] else SCORING)
        make = partial(_scored, inspected, cases.listed, way, job, shown)
        _kept_scores.get(_key(inspected, cases, *way), make)


def units(inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str) -> int:
    """Pairs that `score_cases` has to run: two a case and model."""
    return 2 * len(cases.listed) * len(_missing(inspected, cases, out, mode))


def few_scores(
    inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str
) -> list[Scores]:
    """Scores of a few cases at once: by the whole model, and without `out` where it names heads."""
    key = ("few", inspected.key, tuple(cases), _way(out, mode))
    return _kept_scores.get(key, lambda: _few(inspected, cases, out, mode))


_kept_scores, _bands = Kept(), Kept()


def _way(out: Sequence[Head], mode: str) -> Way:
    return (tuple(out), mode) if out else _PLAIN


def _missing(inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str) -> list[Way]:
    ways = dict.fromkeys([_PLAIN, _way(out, mode)])
    return [way for way in ways if _kept_scores.find(_key(inspected, cases, *way)) is None]


def _key(inspected: Inspected, cases: Cases, out: tuple[Head, ...], mode: str) -> Hashable:
    return ("all", inspected.key, cases.texts_sha256, out, mode)


def _texts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in titles_then_others(cases)]


def _scored(
    inspected: Inspected, cases: Sequence[Case], way: Way, job: Job, shown: Progress
) -> Scores:
    out, mode = way
    scorer = inspected.without(out, mode) if out else inspected.scorer.fresh()
    logits = sliced_logits(scorer, _texts(cases), job, shown)
    return _parted(inspected, logits, scorer.counts.truncated_titles)


def _few(
    inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str
) -> list[Scores]:
    part = inspected.part(tuple(out), mode)
    variants = [NONE] if part is None else [NONE, Variant("heads out", (part,))]
    encoded = inspected.scorer.tokenizer.encode(_texts(cases))
    truncated = sum(one.title_truncated for one in encoded)
    found = inspected.run_tokens(encoded, variants).logits
    return [_parted(inspected, logits, truncated) for logits in found]


def _parted(inspected: Inspected, logits: np.ndarray, truncated: int) -> Scores:
    titles, others = np.split(inspected.outputs(logits).ranking_score, 2)
    return Scores(titles, others, truncated)


def _measured(inspected: Inspected) -> Band:
    pairs = sample_queries(ranked_pairs(shipped_rows("dev")), BAND_PAIRS)
    logits = inspected.run([(pair.query, pair.title) for pair in pairs], [NONE]).logits[0]
    scores = inspected.outputs(logits).ranking_score
    return measured_band(scores, [pair.query for pair in pairs], shipped(DEV).name)


# The behaviour card of a model that is open, and what leaving heads out does to each behaviour.


RESAMPLES = 1_000
"""Of queries, for intervals; nothing is tested here."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Both:
    """Cases judged by the whole model, and without the heads left out (None: none are)."""

    band: Band
    whole: Judged
    without: Judged | None
    truncated: int

    @property
    def ways(self) -> list[Judged]:
        """Both, or the whole model's alone."""
        return [self.whole] if self.without is None else [self.whole, self.without]


@dataclass(frozen=True, eq=False, kw_only=True)
class Line:
    """One phenomenon: of the whole model, without the heads, and how its score changes, paired."""

    whole: Judged
    without: Judged | None = None
    change: Estimate | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Card:
    """All cases, and a line for each phenomenon in the order of the file.

    `complete` is False where heads are left out and nobody has judged the cases without them yet.
    """

    both: Both
    lines: dict[str, Line]
    complete: bool
    seed: int = 0

    @property
    def weakest(self) -> str:
        """The phenomenon of the lowest score."""
        return min(self.lines, key=lambda name: self.lines[name].whole.score.value)

    def of(self, phenomenon: str) -> Both:
        """The cases of one phenomenon."""
        line, both = self.lines[phenomenon], self.both
        return Both(
            band=both.band, whole=line.whole, without=line.without, truncated=both.truncated
        )


def card(
    inspected: Inspected, cases: Cases, out: Sequence[Head], mode: str, seed: int
) -> Card | None:
    """The card of `cases` as far as `score_cases` was run; None before it ran at all."""
    whole = kept_scores(inspected, cases, (), mode)
    without = kept_scores(inspected, cases, out, mode) if out else None
    if whole is None:
        return None
    key = (inspected.key, cases.texts_sha256, tuple(out), mode, seed, without is None)
    return _kept_cards.get(key, lambda: _card(inspected, cases, [whole, without], bool(out), seed))


def judge_few(inspected: Inspected, cases: Sequence[Case], out: Sequence[Head], mode: str) -> Both:
    """A few cases judged at once."""
    return _both(band_here(inspected), cases, few_scores(inspected, cases, out, mode))


def worst_first(judged: Judged) -> IntArray:
    """Places of cases [n]: of `better` ones the lowest Δ first, of others the largest |Δ|."""
    deltas = judged.deltas
    return np.argsort(np.where(judged.better, deltas, -np.abs(deltas)), kind="stable")


_kept_cards = Kept()


def _both(band: Band, cases: Sequence[Case], scores: Sequence[Scores | None]) -> Both:
    judged = [
        Judged(tuple(cases), one.titles, one.others, band.value)
        for one in scores
        if one is not None
    ]
    assert scores[0] is not None
    return Both(
        band=band,
        whole=judged[0],
        without=judged[1] if len(judged) > 1 else None,
        truncated=scores[0].truncated,
    )


def _card(
    inspected: Inspected, cases: Cases, scores: Sequence[Scores | None], masked: bool, seed: int
) -> Card:
    both = _both(band_here(inspected), cases.listed, scores)
    before = both.whole.by_phenomenon()
    if both.without is None:
        lines = {name: Line(whole=one) for name, one in before.items()}
        return Card(both=both, lines=lines, complete=not masked, seed=seed)
    after = both.without.by_phenomenon()
    lines = {
        name: Line(whole=one, without=after[name], change=after[name].score - one.score)
        for name, one in before.items()
    }
    return Card(both=both, lines=lines, complete=True, seed=seed)


# The behaviour card as rows of tables: by phenomenon, and case by case.


Row = dict[str, str | int | float | Text | None]
DIGITS = 2
DIGITS_OF = dict.fromkeys(("score", "delta", "without", "change"), DIGITS)
SIGNED = ("score", "delta", "without", "change", "delta_without")


def line_rows(card: Card) -> list[Row]:
    """A row for each phenomenon, by the keys of `LINE_COLUMNS`."""
    return [_line(name, one, card.seed) for name, one in card.lines.items()]


def case_rows(both: Both, order: Iterable[int]) -> list[Row]:
    """A row for each case at `order`, by the keys of `case_columns`."""
    return [_case(both, int(place)) for place in order]


def _line(name: str, line: Line, seed: int) -> Row:
    whole, change = line.whole, line.change
    relation, counts = whole.cases[0].relation, Counter(whole.outcomes.tolist())
    return {
        "phenomenon": phenomenon_name(name),
        "relation": RELATIONS[relation],
        "n": len(whole),
        "right": counts[RIGHT],
        "undecided": counts[UNDECIDED] if relation == BETTER else None,
        "wrong": counts[WRONG],
        "score": whole.score.value,
        "interval": _shown_interval(whole.score, seed),
        "delta": float(whole.deltas.mean()),
        "without": None if line.without is None else line.without.score.value,
        "change": None if change is None else change.value,
        "change_interval": None if change is None else _shown_interval(change, seed),
    }


def _shown_interval(found: Estimate, seed: int) -> str | None:
    """`[−0.10, 0.42]`; None where there is none."""
    ends = found.interval(RESAMPLES, seed)
    return None if ends is None else interval(*ends, DIGITS)


def _case(both: Both, place: int) -> Row:
    whole, without = both.whole, both.without
    case = whole.cases[place]
    return {
        "id": case.id,
        "relation": RELATIONS[case.relation],
        "query": case.query,
        "title": case.title,
        "other": case.other,
        "first": float(whole.titles[place]),
        "second": float(whole.others[place]),
        "delta": float(whole.deltas[place]),
        "outcome": OUTCOMES[int(whole.outcomes[place])],
        "delta_without": None if without is None else float(without.deltas[place]),
        "outcome_without": None if without is None else OUTCOMES[int(without.outcomes[place])],
    }


# The behaviour card that a study of the model left: its measurements, and of a run its figures.


PROBE = "behaviour"


@dataclass(frozen=True, kw_only=True)
class StoredCard:
    """`said` is the probe's summary, `origin` where it comes from; rows by `STORED_COLUMNS`."""

    said: Text
    origin: Text
    figures: tuple[Figure, ...]
    rows: tuple[Row, ...]


def stored_card(studied: Studied | None) -> StoredCard | None:
    """The card of the model's study, where the probe ran.

    The file beside the weights holds no figures: one is made of the scores by phenomenon then.
    """
    table = None if studied is None else studied.table(PROBE)
    if studied is None or table is None:
        return None
    scores = [one for one in table.measurements if one.id in PHENOMENA]
    figures = (studied.figures or {}).get(PROBE, ())
    cases, file = (table.pairs.n_pairs or 0) // 2, table.facts.get("file", table.pairs.name)
    return StoredCard(
        said=table.summary,
        origin=Text(
            f"{studied.origin.zh}；{file} 的 {cases:,} 个案例",
            f"{studied.origin.en}; {cases:,} cases of {file}",
        ),
        figures=figures or ((_bars(scores),) if scores else ()),
        rows=tuple(_row(one) for one in scores),
    )


def _row(one: Measurement) -> Row:
    return {
        "phenomenon": phenomenon_name(one.id),
        "score": one.value,
        "interval": interval(one.ci_low, one.ci_high, DIGITS) or None,
    }


def _bars(scores: Sequence[Measurement]) -> Bars:
    return Bars(
        name="behaviour_stored",
        title=Text("每种现象的得分", "Score by phenomenon"),
        x_label=PHENOMENON,
        y_label=CASE_SCORE,
        unit="",
        categories=tuple(phenomenon_name(one.id) for one in scores),
        series=(
            BarSeries(
                name=CASE_SCORE,
                values=tuple(one.value for one in scores),
                intervals=tuple(map(_ends, scores)),
            ),
        ),
    )


def _ends(one: Measurement) -> tuple[float, float] | None:
    return None if one.ci_low is None or one.ci_high is None else (one.ci_low, one.ci_high)


# The behaviour card as figures: scores by phenomenon, and one case with what its titles differ in.


def score_bars(card: Card) -> Iterator[Bars]:
    """Scores by phenomenon, a figure for each relation that there is, as the report draws them."""
    for relation, name in RELATIONS.items():
        names = [
            one for one, line in card.lines.items() if line.whole.cases[0].relation == relation
        ]
        lines = [card.lines[one] for one in names]
        if not lines:
            continue
        ways = [[one.whole for one in lines], [one.without for one in lines if one.without]]
        yield Bars(
            name=f"behaviour_{relation}",
            title=Text(
                f"{name.zh}：每种现象的得分", f"{name.en.capitalize()}: score by phenomenon"
            ),
            x_label=PHENOMENON,
            y_label=CASE_SCORE,
            unit="",
            categories=tuple(map(phenomenon_name, names)),
            series=tuple(
                _series(way, found, card.seed)
                for way, found in zip(WAYS, ways, strict=True)
                if found
            ),
            note=_right_where(relation == BETTER, band_said(card.both.band)),
        )


def _series(way: Text, found: list[Judged], seed: int) -> BarSeries:
    scores = [one.score for one in found]
    return BarSeries(
        name=way,
        values=tuple(one.value for one in scores),
        intervals=tuple(one.interval(RESAMPLES, seed) for one in scores),
    )


def _right_where(better: bool, band: Text) -> Text:
    if better:
        return Text(
            f"第一个标题高出容差（{band.zh}）以上为对，低出容差以上为错，其余算未定。",
            f"Right where the first title scores higher by more than the band ({band.en}), wrong "
            "where lower by more, else undecided.",
        )
    return Text(
        f"两个标题相差不超过容差（{band.zh}）为对，否则为错。",
        f"Right where the titles part by no more than the band ({band.en}), else wrong.",
    )


def case_tokens(both: Both, place: int, labels: ModelLabels, name: str) -> Tokens:
    """One case: its texts, each title coloured by the whole model's score of it, outlined where the
    two differ."""
    case = both.whole.cases[place]
    scores = [(judged.titles[place], judged.others[place]) for judged in both.ways]
    names = (Text("第一个标题", "first title"), Text("第二个标题", "second title"))
    low, high = (None, None) if labels.logits == 1 else (min(labels.values), max(labels.values))
    lines = [TokenLine(name=Text("查询", "query"), tokens=(Token(text=case.query),))]
    for side, parts in enumerate(runs(case.title, case.other)):
        values = [float(one[side]) for one in scores]
        tokens = tuple(Token(text=text, value=values[0], marked=differs) for text, differs in parts)
        lines.append(TokenLine(name=_with_scores(names[side], values), tokens=tokens))
    what = score_name(labels)
    return Tokens(
        name=name,
        title=Text(
            f"两个标题和模型给的{what.zh}", f"Both titles, and the model's {what.en} of each"
        ),
        unit=score_unit(labels),
        lines=tuple(lines),
        low=low,
        high=high,
        note=Text(
            "颜色是完整模型给整个标题的分；加框处两个标题不同。",
            "Colours are the whole model's score of the whole title; outlined where the two differ.",
        ),
    )


def _with_scores(name: Text, values: list[float]) -> Text:
    """`first title: 3.41 → 2.90`, the second without the heads left out."""
    shown = " → ".join(number(value, DIGITS) for value in values)
    return Text(f"{name.zh}：{shown}", f"{name.en}: {shown}")


Run = tuple[str, bool]
"""A run of characters, and whether it stands in one of the two texts alone."""


def runs(one: str, other: str) -> tuple[list[Run], list[Run]]:
    """Both texts cut where they begin and cease to differ."""
    first: list[Run] = []
    second: list[Run] = []
    matched = SequenceMatcher(None, one, other, autojunk=False)
    for kind, start, end, from_, to in matched.get_opcodes():
        if end > start:
            first.append((one[start:end], kind != "equal"))
        if to > from_:
            second.append((other[from_:to], kind != "equal"))
    return first, second
