"""Random heads, quantities of [CLS]'s row, and commands that several views show."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.ablation.families import DRAWS, MaskOf, layer_matched
from qt_bert.ablation.interventions import Intervention, Variant
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.figures import HeatMap, known
from qt_bert.inspection.inspected import Inspected
from qt_bert.models.heads import Head, spell
from qt_bert.probes.focus import QUANTITIES
from qt_bert.shipped import GRADED, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Label, Text


def mask_of(inspected: Inspected, mode: str) -> MaskOf:
    """How the model does without some heads, one at least, as `mode` says."""

    def mask(heads: Iterable[Head]) -> Intervention:
        part = inspected.part(heads, mode)
        assert part is not None, "a set of heads to leave out holds one"
        return part

    return mask


def random_heads(
    inspected: Inspected, heads: Iterable[Head], mode: str, seed: int
) -> list[Variant]:
    """Layer-matched sets; none for no heads, or where a layer has too few others to draw from."""
    try:
        return layer_matched(inspected.shape, mask_of(inspected, mode), heads, DRAWS, seed)
    except ArgumentError:
        return []


# What a page says of [CLS]'s row: a few quantities with names, units and what they mean.


PERCENT = 100.0


@dataclass(frozen=True)
class Quantity:
    """How a quantity is read from what is measured of a row [..., QUANTITIES]."""

    name: Text
    unit: Label
    read: Callable[[np.ndarray], np.ndarray]
    digits: int
    about: Text


def _share(measured: np.ndarray) -> np.ndarray:
    matched, other = _plain("matched")(measured), _plain("other")(measured)
    with np.errstate(divide="ignore", invalid="ignore"):
        return PERCENT * matched / (matched + other)


def _plain(name: str, scale: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    place = QUANTITIES.index(name)
    return lambda measured: scale * measured[..., place]


MEASURED = (
    Quantity(
        Text("共有词的份额", "share on shared terms"),
        "%",
        _share,
        1,
        Text(
            "两文本的字（不计标点）所得注意力中，落在共有词上的部分",
            "of the weight on characters of both texts (punctuation aside), what lies on shared terms",
        ),
    ),
    Quantity(
        Text("关注度", "focus"),
        Text("个百分点", "points"),
        _plain("focus", PERCENT),
        1,
        Text(
            "上面的份额，减去共有词的字数占比：0 为一视同仁",
            "that share less the shared terms' share of the characters: 0 is even-handed",
        ),
    ),
    Quantity(
        Text("分散程度", "scatter"),
        "0–1",
        _plain("entropy"),
        3,
        Text(
            "字上注意力的归一化的熵。1：平均分给每个字；0：只看一个字",
            "normalised entropy of the attention on characters. 1: even over them; 0: all on one",
        ),
    ),
    Quantity(
        Text("给共有词的权重", "weight on shared terms"),
        Text("% 的注意力", "% of attention"),
        _plain("matched", PERCENT),
        1,
        Text("占 [CLS] 的全部注意力", "of all of [CLS]'s attention"),
    ),
    Quantity(
        Text("给 [SEP] 的权重", "weight on [SEP]"),
        Text("% 的注意力", "% of attention"),
        _plain("separator", PERCENT),
        1,
        Text("两个 [SEP] 之和", "both separators together"),
    ),
    Quantity(
        Text("给 [CLS] 自身的权重", "weight on [CLS] itself"),
        Text("% 的注意力", "% of attention"),
        _plain("itself", PERCENT),
        1,
        Text("[CLS] 看自己", "[CLS] looking at itself"),
    ),
)


def derived(measured: np.ndarray) -> np.ndarray:
    """MEASURED of what `cls_row.measure` gives [..., QUANTITIES]: [..., MEASURED]; NaN: no number."""
    return np.stack([one.read(measured) for one in MEASURED], axis=-1)


# The commands that do for a whole file what the page does for a part of it.


def evaluate_command(
    inspected: Inspected, name: str | None, options: ReaderOptions, seed: int = 0
) -> str:
    """`qt-bert evaluate` on the file called `name` (None: the test split that ships)."""
    model = _option("--model", inspected)
    return shlex.join(["qt-bert", "evaluate", *model, *_asked(name, options, seed)])


def compare_command(
    inspected: Inspected,
    name: str | None,
    options: ReaderOptions,
    out: Sequence[Head],
    mode: str,
    seed: int = 0,
) -> str:
    """`qt-bert compare` of the model with itself, the heads `out` left out of the second."""
    folder = str(_folder(inspected))
    heads = ["--heads-out", spell(out), *([] if mode == "zero" else ["--mode", mode])]
    return shlex.join(["qt-bert", "compare", folder, folder, *_asked(name, options, seed), *heads])


def study_commands(inspected: Inspected) -> tuple[str, str]:
    """`qt-bert report` into the folder `run`, and the page on what it found."""
    return (
        shlex.join(["qt-bert", "report", *_option("--model", inspected), "--out", "run"]),
        shlex.join(["qt-bert", "app", *_option("--models", inspected), "--run", "run"]),
    )


def cases_command(inspected: Inspected, name: str) -> str:
    """`qt-bert probe behaviour` on the cases in the file called `name`."""
    model = _option("--model", inspected)
    return shlex.join(["qt-bert", "probe", "behaviour", *model, "--cases", name])


def _option(name: str, inspected: Inspected) -> list[str]:
    """The option that names this model; nothing for the one that commands take anyway."""
    folder = _folder(inspected)
    return [] if _is_default(folder) else [name, str(folder)]


def _asked(name: str | None, options: ReaderOptions, seed: int) -> list[str]:
    given = {
        "--pairs": name,
        "--columns": options.columns,
        "--grades": options.grades,
        "--max-rejects": None
        if options.max_rejects == ReaderOptions().max_rejects
        else f"{options.max_rejects:g}",
        "--seed": str(seed) if seed else None,
    }
    words = [
        word for option, value in given.items() if value is not None for word in (option, value)
    ]
    return [*words, *(["--no-header"] if options.no_header else [])]


def _folder(inspected: Inspected) -> Path:
    """The model's folder, as short as it can be written from here."""
    folder = Path(inspected.scorer.checkpoint.folder).resolve()
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _is_default(folder: Path) -> bool:
    try:
        return folder.resolve() == shipped(GRADED).resolve()
    except ArgumentError:
        return False


# Heat maps of layers by heads, and of tokens by tokens.


HEAD, LAYER = Text("头", "head"), Text("层", "layer")
LOOKING, LOOKED_AT = Text("谁在看", "looking"), Text("看谁", "looked at")
ATTENTION = Text("注意力", "attention")


def head_map(
    name: str,
    title: Text,
    unit: Label,
    values: FloatArray,
    *,
    marked: Iterable[Head] = (),
    **options: Any,
) -> HeatMap:
    """`values` [layers, heads] as a heat map, the heads `marked` outlined; `options` are HeatMap's."""
    layers, heads = values.shape
    return HeatMap(
        name=name,
        title=title,
        x_label=HEAD,
        y_label=LAYER,
        unit=unit,
        columns=tuple(f"H{head}" for head in range(heads)),
        rows=tuple(f"L{layer}" for layer in range(layers)),
        values=cells(values),
        marked=tuple((head.layer, head.head) for head in marked),
        **options,
    )


def token_map(
    name: str,
    title: Text,
    looking: Sequence[str],
    looked_at: Sequence[str],
    values: FloatArray,
    **options: Any,
) -> HeatMap:
    """One head's `values` [looking, looked at] as a heat map; `options` are HeatMap's."""
    return HeatMap(
        name=name,
        title=title,
        x_label=LOOKED_AT,
        y_label=LOOKING,
        unit=ATTENTION,
        columns=tuple(looked_at),
        rows=tuple(looking),
        values=cells(values),
        **options,
    )


def cells(values: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    """A matrix as a figure holds it: None where there is no number."""
    return tuple(tuple(known(value) for value in row) for row in values)
