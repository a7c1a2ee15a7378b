"""The order of a classifier's outputs, by their names in `id2label`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from qt_bert.errors import CheckpointError
from qt_bert.models.card import ModelLabels
from qt_bert.progress import note_once


def _ranks(scale: str) -> dict[str, float]:
    steps = enumerate(scale.split(" < "))
    return {word: float(rank) for rank, words in steps for word in words.split()}


_RELEVANCE = re.compile(
    r"(.*?)(相关|满足|匹配|符合|一致|relevant|relevance|related|match|matching)"
)
_STEMS = {"相关": 0.0, "relevant": 0.0, "relevance": 0.0, "related": -0.25}  # 不相关 < 不满足
_STRENGTHS = _ranks(
    "完全不 毫不 根本不 非常不 很不 completelyir completelyun < 不 非 not non ir un no mis none < 不太 不怎么 基本不 比较不 "
    "较不 弱 略 略微 稍微 微弱 低 slightly marginally weakly low complement < 部分 一般 中 中等 有些 partially partly partial "
    "somewhat moderately medium middle substitute < 比较 较 基本 大致 mostly generally < 很 高 强 高度 非常 十分 highly "
    "very strongly high < 完全 最 精确 精准 perfectly fully full completely exactly exact perfect"
)
_SCALES = [
    _ranks("no n false f negative neg 否 假 错 < yes y true t positive pos 是 真 对"),
    _ranks("负 负例 负样本 < 正 正例 正样本"),
    _ranks("contradiction < neutral < entailment"),
    _ranks("i < c < s < e"),
    _ranks("terrible < bad poor < fair ok average neutral < good < excellent great < perfect"),
    _ranks("很差 非常差 < 差 较差 < 中 一般 中等 < 好 较好 良 良好 < 很好 非常好 优 优秀"),
]
_NEGATIONS = ("不", "非", "无", "未", "没", "not", "non", "no", "un", "ir", "in", "dis", "mis")
_NUMBER = re.compile(r"(?:^[+-])?\d+(?:\.\d+)?")


def order_of(names: Sequence[str]) -> tuple[int, ...] | None:
    """The indices of the outputs from lowest to highest; None where the names have no known order."""
    names = [unicodedata.normalize("NFKC", name).strip().casefold() for name in names]
    ranks = _numbers(names) or _words([re.sub(r"[\W\d_]+", "", name) for name in names])
    if not ranks or len(set(ranks)) < len(names):
        return None
    return tuple(sorted(range(len(names)), key=ranks.__getitem__))


def _numbers(names: Sequence[str]) -> list[float]:
    """The number in each name, where names differ only by it: `1星`, `grade 3`."""
    numbers = [_NUMBER.findall(name) for name in names]
    alike = len({_NUMBER.sub("", name).replace(" ", "") for name in names}) == 1
    return (
        [float(matches[0]) for matches in numbers]
        if alike and all(len(n) == 1 for n in numbers)
        else []
    )


def _words(names: Sequence[str]) -> list[float]:
    relevance = {n: rank for n in names if (rank := _relevance(n)) is not None}
    for scale in (*_SCALES, relevance):
        ranks = [scale[name] for name in names if name in scale]
        if len(ranks) == len(names):
            return ranks
    for lower, higher in ((0, 1), (1, 0)) if len(names) == 2 else ():
        if names[lower] in [negation + names[higher] for negation in _NEGATIONS]:
            return [float(lower), float(higher)]
    return []


def _relevance(name: str) -> float | None:
    match = _RELEVANCE.fullmatch(re.sub("无关(系|联)?", "不相关", name))
    if match is None:
        return _STRENGTHS.get(name)
    strength = _STRENGTHS.get(match[1]) if match[1] else 4.0
    return None if strength is None else strength + _STEMS.get(match[2], 0.25)


def in_order(labels: ModelLabels, config: Any, folder: Path, *, settled: bool) -> ModelLabels:
    """`labels` from the lowest output to the highest: by their grades where these are `settled`, else by
    the outputs' names, with a note.

    Raises CheckpointError for a `problem_type` without levels, and where `label2id` contradicts `id2label`.
    """
    path, count = folder / "config.json", labels.logits
    if count == 1:
        return labels
    if config.problem_type in ("multi_label_classification", "regression"):
        raise CheckpointError(
            f"{path}: problem_type {config.problem_type} with {count} outputs, which are then no levels of "
            "one scale; if they are, write single_label_classification there"
        )
    names = [str(config.id2label[place]) for place in range(count)]
    label2id = config.label2id if isinstance(config.label2id, dict) else {}
    numbers = {str(name): str(number) for name, number in label2id.items()}
    wrong = [name for n, name in enumerate(names) if numbers.get(name, str(n)) != str(n)]
    if wrong and not settled:
        raise CheckpointError(
            f"{path}: label2id makes {wrong[0]!r} output {numbers[wrong[0]]}, id2label another; make them agree"
        )
    default = [f"LABEL_{place}" for place in range(count)]
    if names == default and sorted(numbers.values()) == sorted(map(str, range(count))):
        names = sorted(numbers, key=lambda name: int(numbers[name]))
    named = names != default
    by_name, as_stored = order_of(names) if named else None, tuple(range(count))
    called = f"{path}: id2label calls the outputs {', '.join(names)}"
    how = "; --model-grades 0=…,1=… or `grades` in qt_bert.json settles it"
    if settled:
        ordered = labels.ascending()
        if by_name and by_name != (ordered.order or as_stored):
            note_once(f"{called}, in another order than the grades given, which are followed")
        return ordered
    if by_name is None and (named or count == 2):
        taken = " < ".join(labels.names)
        note_once(f"{called}, whose order is not known: they are taken as the levels {taken}{how}")
    if by_name is None or by_name == as_stored:
        return labels
    note_once(f"{called}: they are put in rising order, up to {names[by_name[-1]]}{how}")
    return replace(labels, order=by_name)
