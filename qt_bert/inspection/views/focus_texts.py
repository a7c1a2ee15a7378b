"""What the page on [CLS] says."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.encoder.heads import spell
from qt_bert.inspection.views.focus import Focus
from qt_bert.inspection.views.phrases import BEFORE, MODES
from qt_bert.inspection.views.shifts import Shift
from qt_bert.results import Text
from qt_bert.results.numbers import number, signed
from qt_bert.results.text import in_language

WAYS: Mapping[str, Text] = {
    "before": BEFORE,
    "after": Text("去掉之后", "without the heads"),
    "change": Text("变化", "change"),
}
NUMBERS = Text("全部数字", "All numbers")
ALL_HEADS = Text("这一层所有的头", "All heads of the layer")
WAY = Text("画什么", "What is drawn")
CHOOSE = Text("点一行，看那个头。", "Click a row to look at its head.")
COLUMNS: Mapping[str, Text] = {
    "name": Text("量", "quantity"),
    "unit": Text("单位", "unit"),
    "before": WAYS["before"],
    "after": WAYS["after"],
    "change": WAYS["change"],
    "random": Text("随机头：平均（最小–最大）", "random heads: mean (least–largest)"),
    "random_change": Text("随机头的变化", "change, random heads"),
}


def title(seen: Focus) -> Text:
    """The page's heading."""
    layer = seen.head.layer
    return Text(f"第 {layer} 层 [CLS] 注意力：{seen.head}", f"Layer {layer}'s [CLS]: {seen.head}")


def intro(seen: Focus, mode: str, seed: int) -> Text:
    """Which heads are left out, how, and what stands beside."""
    if not seen.out:
        return Text(
            "现在是完整模型。在左栏选要去掉的头，看它们不在时 [CLS] 改看哪里、档位怎样变。",
            "The whole model. Choose heads to leave out on the left, and see where [CLS] looks "
            "instead, and what becomes of the grade.",
        )
    zh = f"去掉的头（{len(seen.out)} 个，{MODES[mode].zh}）：{spell(seen.out)}。"
    en = f"Heads left out ({len(seen.out)}, {MODES[mode].en}): {spell(seen.out)}. "
    if seen.draws:
        zh += f"对照：每层抽同样多的其他头，{seen.draws} 次，种子 {seed}。"
        en += f"Beside it: as many other heads of each layer, {seen.draws} draws, seed {seed}."
    return Text(zh, en.strip())


def predicted(seen: Focus) -> Text | None:
    """The likeliest grade before and after; None for a model without."""
    before, after = seen.predicted
    if before is None:
        return None
    if after is None:
        return Text(f"预测：{before}", f"predicted: {before}")
    return Text(f"预测：{before} → {after}", f"predicted: {before} → {after}")


def named(shift: Shift) -> Text:
    """A quantity's name with its unit."""
    zh, en = (in_language(shift.unit, language) for language in ("zh", "en"))
    if not en:
        return shift.name
    return Text(f"{shift.name.zh}（{zh}）", f"{shift.name.en} ({en})")


def value(shift: Shift) -> str:
    """Without the heads left out; where none are, of the whole model."""
    return number(shift.before if shift.after is None else shift.after, shift.digits)


def beside(shift: Shift) -> Text:
    """The value of the whole model, and that without random heads."""
    before = number(shift.before, shift.digits)
    zh, en = [f"完整模型 {before}"], [f"whole model {before}"]
    if shift.random is not None:
        zh.append(f"随机头 {spread(shift)}")
        en.append(f"random heads {spread(shift)}")
    return Text("；".join(zh), "; ".join(en))


def spread(shift: Shift) -> str | None:
    """`3.91 (3.52 … 4.20)`: the mean over random draws, their least and largest."""
    if shift.random is None:
        return None
    mean, low, high = (
        number(value, shift.digits)
        for value in (shift.random.mean, shift.random.low, shift.random.high)
    )
    return f"{mean} ({low} … {high})"


def delta(shift: Shift) -> str | None:
    """The change with its sign; None where there is none to tell."""
    return None if shift.change is None else signed(shift.change, shift.digits)


def meaning(shift: Shift) -> Text | None:
    """A quantity's name and what it is; None for one that needs no word."""
    if shift.about is None:
        return None
    return Text(f"{shift.name.zh}：{shift.about.zh}", f"{shift.name.en}: {shift.about.en}")


def row(shift: Shift) -> dict[str, str | Text | None]:
    """A line of the table, by the keys of COLUMNS."""
    without = shift.after is not None
    return {
        "name": shift.name,
        "unit": shift.unit or None,
        "before": number(shift.before, shift.digits),
        "after": number(shift.after, shift.digits) if without else None,
        "change": delta(shift),
        "random": spread(shift),
        "random_change": None
        if shift.random_change is None
        else signed(shift.random_change, shift.digits),
    }
