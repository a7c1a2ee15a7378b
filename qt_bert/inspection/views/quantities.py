"""What a page says of [CLS]'s row: a few quantities with names, units and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from qt_bert.probes.readers.cls_row import QUANTITIES
from qt_bert.results import Text
from qt_bert.results.text import Label

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
