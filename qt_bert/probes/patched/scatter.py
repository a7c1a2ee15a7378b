"""Heads by what patching them restores and by what is lost without them."""

from __future__ import annotations

from qt_bert.encoder.heads import Head
from qt_bert.probes.patched.study import Choice, Study
from qt_bert.probes.patched.words import SHARE
from qt_bert.results import Scatter, Text
from qt_bert.results.figures import Mark

NEITHER = Text("两者都没有选出", "named by neither")
BY = {
    (True, True): Text("两者都选出", "named by both"),
    (True, False): Text("只由补丁选出", "named by patching alone"),
    (False, True): Text("只由去掉选出", "named by leaving out alone"),
    (False, False): NEITHER,
}


def only_one(choice: Choice) -> tuple[list[Head], list[Head]]:
    """The heads that patching alone names, and those that leaving out alone names; best first."""
    patched, absent = choice.restoring.heads, choice.left_out.heads
    return (
        [head for head in patched if head not in absent],
        [head for head in absent if head not in patched],
    )


def scatter(study: Study) -> Scatter:
    """Every head on validation; the labelled ones are named on discovery."""
    restored = study.each.restoring(study.plan.singles).values
    lost = study.each.closing(study.plan.left_out).values
    points: dict[Text, list[Mark]] = {series: [] for series in BY.values()}
    for variant, x, y in zip(study.plan.singles, restored, lost, strict=True):
        head = variant.heads[0]
        series = _series(study.choice, head)
        label = None if series == NEITHER else str(head)
        points[series].append(Mark(x=float(x), y=float(y), series=series, label=label))
    return Scatter(
        name="patch_against_leaving_out",
        title=Text("换回与去掉：两种方法看到的头", "Put back and left out: the heads each sees"),
        x_label=Text("换回它补回多少", "restored by it"),
        y_label=Text("去掉它损失多少", "lost without it"),
        x_unit=SHARE,
        y_unit=SHARE,
        points=tuple(mark for marks in points.values() for mark in marks),
        note=Text(
            "验证集上的值；有名字的头在发现集上选出（q < 0.05，份额不低于 0.02）",
            "Values of validation; heads with a name were named on discovery (q < 0.05, a share of "
            "0.02 or more)",
        ),
    )


def _series(choice: Choice | None, head: Head) -> Text:
    if choice is None:
        return NEITHER
    return BY[head in choice.restoring.heads, head in choice.left_out.heads]
