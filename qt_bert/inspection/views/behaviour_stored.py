"""The behaviour card that a study of the model left: its claims, and of a run its figures."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.inspection.studied import Studied
from qt_bert.inspection.views.behaviour_tables import DIGITS, Row
from qt_bert.probes.behaving.words import CASE_SCORE, PHENOMENON
from qt_bert.results import Bars, Figure, Finding, Text
from qt_bert.results.figures import BarSeries
from qt_bert.results.head_table import HeadTable
from qt_bert.results.numbers import interval
from qt_bert.results.phenomena import phenomenon_name

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

    The file beside the weights holds the claims alone, those of *better* phenomena: the figure is
    made of these then.
    """
    table = None if studied is None else studied.table(PROBE)
    if studied is None or table is None:
        return None
    figures = (studied.figures or {}).get(PROBE, ())
    return StoredCard(
        said=table.summary,
        origin=Text(
            f"{studied.origin.zh}；案例 {table.pairs.name}，验证集 {_cases(table):,} 个",
            f"{studied.origin.en}; cases of {table.pairs.name}, {_cases(table):,} of validation",
        ),
        figures=figures or ((_bars(table),) if table.findings else ()),
        rows=tuple(_row(one) for one in table.findings),
    )


def _cases(table: HeadTable) -> int:
    return (table.pairs.n_pairs or 0) // 2


def _name(finding: Finding) -> Text:
    return phenomenon_name(finding.id.removeprefix(f"{PROBE}."))


def _row(one: Finding) -> Row:
    return {
        "phenomenon": _name(one),
        "score": one.value,
        "interval": interval(one.ci_low, one.ci_high, DIGITS) or None,
        "q": one.q,
        "concluded": one.conclusion,
    }


def _bars(table: HeadTable) -> Bars:
    return Bars(
        name="behaviour_stored",
        title=Text("应当更好：每种现象的得分", "Better: score by phenomenon"),
        x_label=PHENOMENON,
        y_label=CASE_SCORE,
        unit="",
        categories=tuple(map(_name, table.findings)),
        series=(
            BarSeries(
                name=CASE_SCORE,
                values=tuple(one.value for one in table.findings),
                intervals=tuple(map(_ends, table.findings)),
            ),
        ),
    )


def _ends(one: Finding) -> tuple[float, float] | None:
    return None if one.ci_low is None or one.ci_high is None else (one.ci_low, one.ci_high)
