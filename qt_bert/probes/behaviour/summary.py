"""The behaviour card in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Relation
from qt_bert.probes.behaviour.claims import AIM
from qt_bert.probes.behaviour.contests import CARRIES
from qt_bert.probes.behaviour.estimates import Mean
from qt_bert.probes.behaviour.study import Study
from qt_bert.probes.behaviour.tallies import Tally
from qt_bert.probes.behaviour.words import QUICK
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.text import Text, counted, interval, joined, number, signed

LISTED = 2
"""Phenomena that the summary names."""


def summary(study: Study, *, full: bool) -> Text:
    """How often the better title is seen, where that fails, what moves the model and must not."""
    return joined(_sentences(study, full=full))


def _sentences(study: Study, *, full: bool) -> Iterator[Text]:
    if study.validation.higher.n:
        yield _ranked(study)
    yield from _lowest(study, BETTER, Text("最分不清的是", "Hardest to tell:"))
    yield from _lowest(
        study, ALIKE, Text("受表面变化影响最大的是", "Most moved by what must not matter:")
    )
    yield _heads(study) if full else QUICK


def _ranked(study: Study) -> Text:
    found, first = study.validation.higher, study.discovery.higher
    of = f"{_value(found)} {interval(*_ends(found), 2)}".rstrip()
    before = number(first.value, 2) if first.n else "—"
    cases = study.cases
    return Text(
        f"{len(cases.phenomena)} 种现象、{len(cases.listed):,} 个案例；在“应当更好”的案例里，更好的标题得分"
        f"更高的占 {of}（验证集；发现集 {before}；目标 {AIM:g}）。",
        f"{counted(len(cases.phenomena), 'phenomenon', 'phenomena')}, "
        f"{counted(len(cases.listed), 'case')}; of the better cases the better title scores higher in "
        f"{of} (validation; discovery {before}; aimed at: {AIM:g}).",
    )


def _lowest(study: Study, relation: Relation, begins: Text) -> Iterator[Text]:
    """The phenomena of the lowest scores; of alike ones with their lean."""
    own = [one for one in study.validation.tallies.values() if one.relation == relation]
    lowest = sorted(own, key=lambda one: one.score.value)[:LISTED]
    if lowest:
        zh, en = ([_named(one, study, language) for one in lowest] for language in ("zh", "en"))
        yield Text(f"{begins.zh}{'、'.join(zh)}。", f"{begins.en} {', '.join(en)}.")


def _named(tally: Tally, study: Study, language: str) -> str:
    name, unit = phenomenon_name(tally.phenomenon), study.band.unit
    score, lean = signed(tally.score.value, 2), signed(tally.delta.value, 2)
    if language == "zh":
        leans = f"，平均偏 {lean} {unit.zh}" if tally.relation == ALIKE else ""
        return f"“{name.zh}”（得分 {score}{leans}）"
    leans = f", mean lean {lean} {unit.en}" if tally.relation == ALIKE else ""
    return f"{name.en} (score {score}{leans})"


def _heads(study: Study) -> Text:
    """How many phenomena some head carries, and how many of these sets beat their controls."""
    found = study.carried
    chosen = [name for name in found.phenomena if found.chosen(name, helps=True)]
    least, unit = f"{found.least:.2g}", study.band.unit
    if not chosen:
        return Text(
            f"没有哪个头单独去掉会让某种行为显著变差 {least} {unit.zh}以上。",
            f"No head makes any behaviour significantly worse by {least} {unit.en} or more by its "
            "absence alone.",
        )
    carrying = [one for one in study.tested if one.way == CARRIES]
    beaten = [one for one in carrying if one.matters]
    zh = en = ""
    if len(carrying) < len(chosen):
        zh = f"，其中 {len(carrying)} 种有验证集的案例"
        en = f", {len(carrying)} of them with cases of validation"
    return Text(
        f"{len(chosen)} 种现象选得出承载它的头{zh}；在验证集上，其中 {len(beaten)} 种的头比同层其他头更要紧"
        f"（95% 区间）{_listed([one.phenomenon for one in beaten]).zh}。",
        f"Heads that carry it are found for {counted(len(chosen), 'phenomenon', 'phenomena')}{en}; on "
        f"validation they matter more than others of their layers in {len(beaten)} of them "
        f"(95 % interval){_listed([one.phenomenon for one in beaten]).en}.",
    )


def _listed(phenomena: Sequence[str]) -> Text:
    if not phenomena:
        return Text("", "")
    names = [phenomenon_name(name) for name in phenomena]
    return Text(
        f"：{'、'.join(one.zh for one in names)}", f": {', '.join(one.en for one in names)}"
    )


def _value(one: Mean) -> str:
    return number(one.value, 2)


def _ends(one: Mean) -> tuple[float | None, float | None]:
    return one.interval or (None, None)
