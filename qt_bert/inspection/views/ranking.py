"""Several titles under one query, ranked; and ranked again with heads left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.interventions import NONE, Intervention, Variant
from qt_bert.data.pairs import GradeSet, LabelScheme, Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.figures import Bars, BarSeries, HeatMap
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inputs import plain_text
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.phrases import AFTER, BEFORE, level_name, score_name, score_unit
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.scoring.explain import LEAST_TELLING
from qt_bert.scoring.judge import Outputs, default_scheme, judge_logits
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text

# The titles of one query: typed, one a line, or those of a file of pairs.


MOST_TITLES = 50
MOST_CHARACTERS = 500
OTHERS = 7
"""Titles of other queries beside the visitor's own, where there is nothing better to rank."""


@dataclass(frozen=True)
class Title:
    """A title, its label as it was written, and the grades (or the level) that this may mean."""

    text: str
    label: str | None = None
    grades: GradeSet | None = None


def typed_titles(text: str, labels: ModelLabels) -> tuple[list[Title], list[Text]]:
    """The titles typed in `text`, one a line, each with a label after a tab or without one.

    Empty lines and repeated titles are passed over. Also what had to be changed, in words: titles
    beyond 50, characters beyond 500 a title, control characters, and labels that this model
    cannot read.
    """
    scheme = default_scheme(labels)
    found: dict[str, Title] = {}
    repeated = cut = 0
    unknown: list[str] = []
    for line in text.splitlines():
        written, _, label = line.rpartition("\t") if "\t" in line else (line, "", "")
        shown = plain_text(written).strip()
        if not shown:
            continue
        cut += len(shown) > MOST_CHARACTERS
        shown = shown[:MOST_CHARACTERS]
        repeated += shown in found
        title = _labelled(shown, label.strip(), scheme)
        if title.label is not None and title.grades is None:
            unknown.append(title.label)
        found.setdefault(shown, title)
    faults = _faults(len(found), repeated, cut, unknown)
    return list(found.values())[:MOST_TITLES], faults


def titles_of(pairs: Iterable[Pair], query: str) -> list[Title]:
    """The first 50 different titles that a file of pairs has for `query`."""
    found = {p.title: Title(p.title, p.label, p.grades) for p in pairs if p.query == query}
    return list(found.values())[:MOST_TITLES]


def default_titles(query: str, title: str, rows: Sequence[Pair], seed: int) -> list[Title]:
    """What to rank before anything is typed: the titles that `rows` have for `query`.

    A query of none gets its own title beside others' titles, drawn by `seed`.
    """
    known = titles_of(rows, query)
    if known:
        return known if title in {one.text for one in known} else [Title(title), *known]
    others = spread_over_queries(rows, OTHERS, seed) if rows else []
    return [Title(title), *(Title(pair.title) for pair in others if pair.title != title)]


def queries_of(pairs: Iterable[Pair]) -> list[str]:
    """The queries that have two different titles at least, in file order."""
    titles: dict[str, set[str]] = {}
    for pair in pairs:
        titles.setdefault(pair.query, set()).add(pair.title)
    return [query for query, found in titles.items() if len(found) > 1]


def written(titles: Sequence[Title]) -> str:
    """Titles as `typed_titles` reads them."""
    return "\n".join(f"{one.text}\t{one.label}" if one.label else one.text for one in titles)


def _labelled(text: str, label: str, scheme: LabelScheme) -> Title:
    if not label:
        return Title(text)
    try:
        return Title(text, label[:20], scheme.grades_of(label))
    except ValueError:
        return Title(text, label[:20])


def _faults(titles: int, repeated: int, cut: int, unknown: Sequence[str]) -> list[Text]:
    faults = []
    if titles > MOST_TITLES:
        left = titles - MOST_TITLES
        faults.append(
            Text(
                f"只取前 {MOST_TITLES} 条标题，其余 {left:,} 条没有用。",
                f"The first {MOST_TITLES} titles are taken; {left:,} more are left out.",
            )
        )
    if repeated:
        faults.append(
            Text(f"重复的标题只取一次（{repeated:,} 行）。", f"{repeated:,} lines repeat a title.")
        )
    if cut:
        faults.append(
            Text(
                f"{cut:,} 条标题超过 {MOST_CHARACTERS} 个字，只取开头。",
                f"{cut:,} titles are longer than {MOST_CHARACTERS} characters and were cut.",
            )
        )
    if unknown:
        shown = "、".join(dict.fromkeys(unknown[:3]))
        faults.append(
            Text(
                f"{len(unknown):,} 个标注这个模型不认识（{shown}），不用于 NDCG。",
                f"This model cannot read {len(unknown):,} of the labels ({shown}): not in NDCG.",
            )
        )
    return faults


@dataclass(frozen=True, kw_only=True)
class RankedTitle:
    """One title: its score and place, and both without the heads left out (None: none are).

    `predicted` is None for a model of one logit. Places count from 1; equal scores share one.
    """

    title: str
    label: str | None
    score: float
    place: int
    predicted: str | None
    score_without: float | None = None
    place_without: int | None = None

    @property
    def moved(self) -> int | None:
        """Places up (positive) or down without the heads."""
        return None if self.place_without is None else self.place - self.place_without


# What the page Ranking says.


TITLE = Text("排序：同一查询下的多条标题", "Ranking: several titles under one query")
INTRO = Text(
    "同一查询下的标题按期望等级排序；去掉左栏所选的头之后再排一次。点一条标题，看哪些词、哪些头左右它。",
    "Titles of one query, ranked by their expected grade, and once more without the heads chosen on "
    "the left. Click a title to see which terms and which heads move it.",
)
QUERY = Text("查询：{query}", "Query: {query}")
TITLES = Text("标题，每行一条", "Titles, one a line")
TITLES_HELP = Text(
    "至多 50 条。行尾可加制表符（Tab）和标注，例如从表格粘贴两列；有标注就算 NDCG。",
    "50 at most. A label may follow after a tab, as two columns pasted from a spreadsheet have it; "
    "with labels there is NDCG.",
)
NOT_IN_LINK = Text(
    "这些标题是你自己的，不在链接里：别人打开链接看到的是默认的标题。",
    "These titles are your own and no link holds them: others see the default ones.",
)
SHIPPED = Text("取随包测试集的一个查询", "A query of the test set that ships")
UPLOAD = Text(
    "也可以在左栏“换一对”里上传文件，再在这里选它的查询。",
    "Or upload a file on the left, and choose one of its queries here.",
)
OF_FILE = Text("文件里的查询", "A query of the file")
NOTHING_IN_FILE = Text(
    "文件里没有一个查询有两条不同的标题。", "No query of the file has two different titles."
)
MORE_WAYS = Text("换一个查询和它的标题", "Another query with its titles")
NO_TITLES = Text("请输入至少一条标题。", "Type at least one title.")
NO_HEADS = Text(
    "左栏没有选中要去掉的头，只显示完整模型的排序。",
    "No heads are left out on the left: this is the whole model's ranking alone.",
)
MOVED = Text("名次变了的标题", "titles that move")
MOVED_HELP = Text(
    "去掉所选的头之后名次不同的标题 / 全部标题。同分的标题名次相同。",
    "Titles whose place differs without the heads, of all titles. Equal scores share a place.",
)
TAU = Text("Kendall τ（两种排序之间）", "Kendall's τ between both orders")
TAU_HELP = Text(
    "τ-b：1 为顺序完全相同，−1 为完全相反；无：分数全相同。",
    "τ-b: 1 the same order, −1 the reverse; none where all scores are equal.",
)
CLICK = Text(
    "点一行，下面就分析那条标题（默认是左栏的标题）。",
    "Click a row: what is below then looks at that title (at first the one on the left).",
)
MOVERS = Text("什么左右这条标题", "What moves this title")
OPEN = Text("在首页看这一对", "Look at this pair on the front page")
NO_SHARES = Text(
    "每个头单独去掉（以 0 代替），对完整模型而言。这是缺了它的影响，不是可以相加的份额：头可以互相替代。",
    "Each head is left out alone, of the whole model, replaced by 0. These are effects of its absence, "
    "not shares that add up: heads stand in for each other.",
)
CARRIERS = Text("再看哪些头带着最要紧的词", "Also show which heads carry the most telling term")
CARRIERS_HELP = Text(
    "把最要紧的词换掉，再把原来这一对里各个头的输出逐个换回去，看补回多少；要算几秒。",
    "The most telling term is filled; then each head's output of the pair as it is is put back, one at "
    "a time, to see how much of the change comes back. It takes seconds.",
)
NO_CARRIERS = Text(
    f"没有一个词换掉后使分数变化 {LEAST_TELLING} 以上，所以不问是哪些头带着它。",
    f"No term changes the score by {LEAST_TELLING} or more, so that there is nothing for a head to "
    "carry.",
)
CARRIED = Text(
    "对完整模型而言；全部头一起换回为 100%。份额不能相加：头与头互相读取。只看这一对，没有区间。",
    "Of the whole model; all heads put back together give 100 %. Shares do not add up: heads read each "
    "other. One pair, no interval.",
)


def columns(score: Text) -> dict[str, Text]:
    """The columns of the ranking's table."""
    return {
        "place": Text("名次", "place"),
        "moved": Text("去掉头后", "without heads"),
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def ndcg_help(name: str, labelled: int) -> Text:
    """What NDCG is, and what it rests on."""
    about = METRICS[name].description
    return Text(
        f"{about.zh}在 {labelled} 条有标注的标题上；小字是去掉头后的变化。",
        f"{about.en} Over the {labelled} titles with labels; below, the change without the heads.",
    )


def passed_over(count: int, most: int) -> Text:
    """Terms that were not filled."""
    return Text(
        f"只逐个换掉了前 {most} 个词，还有 {count} 个没有算。",
        f"The first {most} terms were filled one by one; {count} more were not.",
    )


def chosen_head(layer: int, head: int) -> Text:
    """The head that a click on the map chose."""
    return Text(
        f"点图上一格即选中那个头，各页都用它；现在是 L{layer}H{head}。",
        f"A click on the map chooses a head for all pages; now it is L{layer}H{head}.",
    )


# A ranking as figures: scores as bars, probabilities as heat maps, titles from the best down.


_LABEL_CHARACTERS = 22


def ranking_figures(
    ranked: Sequence[RankedTitle],
    outputs: Sequence[Outputs],
    order: np.ndarray,
    labels: ModelLabels,
) -> tuple[Bars | HeatMap, ...]:
    """Scores as bars, and the probabilities of each model; `order` [titles] ranks its outputs."""
    names = [f"{one.place}. {shortened(one.title)}" for one in ranked]
    found: list[Bars | HeatMap] = [_score_bars(names, ranked, labels)]
    what = level_name(labels)
    for way, one in zip((BEFORE, AFTER), outputs, strict=False):
        if one.probabilities is not None:
            name = "ranking_distribution" + ("" if way is BEFORE else "_without")
            title = Text(f"各{what.zh}的概率，{way.zh}", f"Probability of each {what.en}, {way.en}")
            found.append(_distribution(name, title, names, one.probabilities[order], labels))
    return tuple(found)


def _score_bars(names: Sequence[str], ranked: Sequence[RankedTitle], labels: ModelLabels) -> Bars:
    series = [BarSeries(name=BEFORE, values=_scores(ranked))]
    if ranked and ranked[0].score_without is not None:
        without = tuple(one.score_without for one in ranked)
        series.append(BarSeries(name=AFTER, values=without))
    return Bars(
        name="ranking_scores",
        title=Text("排序分：每条标题", "Ranking score of every title"),
        x_label=Text(
            "标题（前面是完整模型的名次）", "title (with its place under the whole model)"
        ),
        y_label=score_name(labels),
        unit=score_unit(labels),
        categories=tuple(names),
        series=tuple(series),
        digits=3,
    )


def _scores(ranked: Sequence[RankedTitle]) -> tuple[float, ...]:
    return tuple(one.score for one in ranked)


def _distribution(
    name: str, title: Text, names: Sequence[str], probabilities: np.ndarray, labels: ModelLabels
) -> HeatMap:
    return HeatMap(
        name=name,
        title=title,
        x_label=level_name(labels),
        y_label=Text("标题", "title"),
        unit=Text("概率 %", "probability, %"),
        columns=tuple(labels.names),
        rows=tuple(names),
        values=tuple(tuple(100 * float(p) for p in row) for row in probabilities),
        low=0.0,
        high=100.0,
        digits=1,
    )


def shortened(text: str, characters: int = _LABEL_CHARACTERS) -> str:
    """A title as a chart's label."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


# Several titles under one query, ranked; and ranked again with heads left out.


NDCG = ("ndcg_at_3", "ndcg_at_10")


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Titles from the best score down; `score` says what they are ranked by.

    `tau` is Kendall's τ-b between both orders (None: no heads left out, or all scores equal);
    `ndcg` maps a metric's name to its value before and after, over the `labelled` titles; it is empty
    where these say nothing of an order.
    """

    titles: tuple[RankedTitle, ...]
    score: Text
    tau: float | None
    ndcg: dict[str, tuple[float | None, float | None]]
    labelled: int
    truncated: int
    figures: tuple[Bars | HeatMap, ...]

    def place_of(self, title: str) -> int:
        """Where `title` stands in `titles`; at the top where it is not among them."""
        return next((at for at, one in enumerate(self.titles) if one.title == title), 0)

    @property
    def moves(self) -> int:
        """How many titles change their place."""
        return sum(bool(title.moved) for title in self.titles)


def rank_titles(
    inspected: Inspected, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    """Grade every title under `query`, plainly and (where `out` names heads) without these."""
    key = (inspected.key, query, tuple(titles), tuple(out), mode)
    return _kept.get(key, lambda: _ranked(inspected, query, titles, out, mode))


_kept = Kept()


def _ranked(
    inspected: Inspected, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    part = inspected.part(tuple(out), mode)
    logits, truncated = _logits(inspected, query, titles, part)
    outputs = [inspected.outputs(one) for one in logits]
    scores = [one.ranking_score for one in outputs]
    places = [_places(one) for one in scores]
    order = np.argsort(-scores[0], kind="stable")
    masked = len(logits) > 1
    ranked = tuple(
        RankedTitle(
            title=titles[row].text,
            label=titles[row].label,
            score=float(scores[0][row]),
            place=int(places[0][row]),
            predicted=None if outputs[0].predicted is None else outputs[0].predicted[row],
            score_without=float(scores[1][row]) if masked else None,
            place_without=int(places[1][row]) if masked else None,
        )
        for row in order
    )
    return Ranking(
        titles=ranked,
        score=score_name(inspected.labels),
        tau=kendall(scores[0], scores[1]) if masked else None,
        ndcg=_ndcg(query, titles, logits, inspected.labels),
        labelled=sum(title.grades is not None for title in titles),
        truncated=truncated,
        figures=ranking_figures(ranked, outputs, order, inspected.labels),
    )


def ranking_rows(found: Ranking) -> list[dict[str, str | int | float | None]]:
    """The titles as rows of a table, with arrows where a place changes."""
    return [
        {
            "place": one.place,
            "moved": arrow(one),
            "title": one.title,
            "label": one.label,
            "predicted": one.predicted,
            "score": one.score,
            "without": one.score_without,
            "change": None if one.score_without is None else one.score_without - one.score,
        }
        for one in found.titles
    ]


def arrow(one: RankedTitle) -> str | None:
    """`3 ▲2`: the place without the heads, and how far up or down that is; None: none left out."""
    if one.place_without is None or one.moved is None:
        return None
    moved = f" {'▲' if one.moved > 0 else '▼'}{abs(one.moved)}" if one.moved else " ="
    return f"{one.place_without}{moved}"


def kendall(one: FloatArray, other: FloatArray) -> float | None:
    """Kendall's τ-b between two scores of the same titles [n]; None where it is undefined."""
    from scipy.stats import kendalltau

    if len(one) < 2:
        return None
    tau = float(kendalltau(one, other).statistic)
    return tau if np.isfinite(tau) else None


def _logits(
    inspected: Inspected, query: str, titles: Sequence[Title], part: Intervention | None
) -> tuple[list[np.ndarray], int]:
    """Logits [titles, K] of the plain model and of the masked one, and how many titles were cut."""
    variants = [NONE] if part is None else [NONE, Variant("heads out", (part,))]
    texts = [(query, title.text) for title in titles]
    truncated = sum(inspected.encode(*text).title_truncated for text in texts)
    return list(inspected.run(texts, variants).logits), truncated


def _places(scores: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores, method="min"))


def _ndcg(
    query: str, titles: Sequence[Title], logits: Sequence[np.ndarray], labels: ModelLabels
) -> dict[str, tuple[float | None, float | None]]:
    """NDCG over the labelled titles, before and after; empty where fewer than two have a label."""
    rows = [row for row, title in enumerate(titles) if title.grades is not None]
    if len(rows) < 2:
        return {}
    pairs = [
        Pair(query, titles[row].text, titles[row].grades, str(row), row, titles[row].label, {})
        for row in rows
    ]
    judged = [judge_logits(one[rows], pairs, labels) for one in logits]
    values = {name: [METRICS[name].value(one) for one in judged] for name in NDCG}
    return {
        name: (both[0], both[1] if len(both) > 1 else None)
        for name, both in values.items()
        if both[0] is not None
    }
