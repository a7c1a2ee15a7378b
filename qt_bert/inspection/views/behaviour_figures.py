"""The behaviour card as figures: scores by phenomenon, and one case with what its titles differ in."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.encoder import ModelLabels
from qt_bert.inspection.views.behaviour import Both, Card
from qt_bert.inspection.views.behaviour_words import RELATIONS, WAYS
from qt_bert.inspection.views.units import score_name, score_unit
from qt_bert.probes.behaving.cases import BETTER
from qt_bert.probes.behaving.misses import runs
from qt_bert.probes.behaving.tallies import Tally
from qt_bert.probes.behaving.words import CASE_SCORE, PHENOMENON
from qt_bert.results import Bars, Text, Tokens
from qt_bert.results.figures import BarSeries, Token, TokenLine
from qt_bert.results.numbers import number
from qt_bert.results.phenomena import phenomenon_name

DIGITS = 2


def score_bars(card: Card) -> Iterator[Bars]:
    """Scores by phenomenon, a figure for each relation that there is, as the report draws them."""
    for relation, name in RELATIONS.items():
        lines = [one for one in card.lines.values() if one.whole.relation == relation]
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
            categories=tuple(phenomenon_name(one.whole.phenomenon) for one in lines),
            series=tuple(
                _series(way, found) for way, found in zip(WAYS, ways, strict=True) if found
            ),
            note=_right_where(relation == BETTER, card.both.band.said),
        )


def _series(way: Text, found: list[Tally]) -> BarSeries:
    return BarSeries(
        name=way,
        values=tuple(one.score.value for one in found),
        intervals=tuple(one.score.interval for one in found),
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
