"""What stands beside the claims of word order, without a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from qt_bert.probes.controls import rank_p
from qt_bert.probes.order.changes import (
    GRADES,
    NO_HEADS,
    NOTHING,
    SHARE,
    Change,
    against,
    change,
    finding,
)
from qt_bert.probes.order.grades import expected_grades
from qt_bert.probes.order.sensitivity import Quantity
from qt_bert.probes.order.study import Study
from qt_bert.results.probe import Finding
from qt_bert.text import Text

NO_RANDOM = Text("没有可抽的随机头", "no random heads could be drawn")
OF_ORDER = ("order",)
"""The set that most of this is about."""


def beside(study: Study) -> Iterable[Finding]:
    """S, R and their terms, other masks, and the article's case."""
    for one in (*_plain(study), *_terms(study), *_others(study)):
        yield finding(
            study,
            one.id,
            one.claim,
            one.found,
            below=one.below,
            unit=one.unit,
            primary=False,
            sets=one.sets,
        )
    yield _case(study)


class _Beside(NamedTuple):
    id: str
    claim: Text
    found: Change
    unit: Text = GRADES
    below: bool = False
    sets: tuple[str, ...] = ()


def _plain(study: Study) -> Iterable[_Beside]:
    def value(quantity: Quantity) -> Change:
        found = study.sensitivity
        plain = float(found.values(quantity, [0])[0])
        known = np.isfinite(plain)
        return Change(plain, found.resampled(quantity, [0])[0]) if known else NOTHING

    yield _Beside(
        "order_sensitivity",
        Text("不去掉头：打乱标题的字使期望等级下降 S", "All heads in: what shuffling costs, S"),
        value("sensitivity"),
    )
    yield _Beside(
        "order_reach",
        Text("不去掉头：高档与低档的期望等级之差 R", "All heads in: from high to low grades, R"),
        value("reach"),
    )
    yield _Beside(
        "order_ratio_plain", Text("不去掉头：S/R", "All heads in: S/R"), value("ratio"), SHARE
    )


def _terms(study: Study) -> Iterable[_Beside]:
    """How the mask moves S / R and its terms, each against the plain model."""
    claim = study.masks.claim
    if claim is None:
        return
    named: list[tuple[str, Quantity, str, str]] = [
        ("order_ratio_change", "ratio", "S/R 的变化", "change of S/R"),
        ("order_sensitivity_change", "sensitivity", "S 的变化", "change of S"),
        ("order_reach_change", "reach", "R 的变化", "change of R"),
        (
            "order_original_change",
            "original",
            "原标题期望等级的变化",
            "change of unshuffled titles' grade",
        ),
        ("order_low_change", "low", "低档对期望等级的变化", "change of low pairs' grade"),
    ]
    for id, quantity, zh, en in named:
        yield _Beside(
            id,
            Text(f"去掉语序头：{zh}", f"Order heads out: {en}"),
            change(study, quantity, [claim.target]),
            SHARE if quantity == "ratio" else GRADES,
            below=quantity in ("ratio", "sensitivity"),
            sets=OF_ORDER,
        )
    yield _Beside(
        "order_shuffled_beyond",
        Text(
            "去掉语序头：被打乱的标题比去掉同层随机头时高多少",
            "Order heads out: shuffled titles' grade above that without random heads of the layers",
        ),
        against(study, "shuffled", claim, "matched", below=False),
        sets=OF_ORDER,
    )


def _others(study: Study) -> Iterable[_Beside]:
    """S / R under other masks."""
    claim, mean, matching = study.masks.claim, study.masks.mean, study.masks.matching
    if claim is not None and claim.free:
        yield _ratio(
            "order_free",
            Text(
                "自由抽取的随机头：S/R 的平均变化",
                "Random heads of any layer out: mean change of S/R",
            ),
            change(study, "ratio", claim.free),
            (),
        )
    if matching is not None:
        yield _ratio(
            "order_matching",
            Text("去掉匹配头：S/R 的变化", "Matching heads out: change of S/R"),
            change(study, "ratio", [matching]),
            ("matching_left_out",),
        )
    if claim is not None and claim.loud:
        yield _ratio(
            "order_loud",
            Text("与响度相近的随机头相比：S/R", "S/R against random heads as loud"),
            against(study, "ratio", claim, "loud", below=True),
        )
    if mean is not None:
        yield _ratio(
            "order_mean",
            Text(
                "以均值代替而非置零，与同层随机头相比：S/R",
                "Mean contexts instead of zeros: S/R against random heads of the same layers",
            ),
            against(study, "ratio", mean, "matched", below=True),
        )


def _ratio(id: str, claim: Text, found: Change, sets: tuple[str, ...] = OF_ORDER) -> _Beside:
    return _Beside(id, claim, found, SHARE, below=True, sets=sets)


def _case(study: Study) -> Finding:
    """The article's pair: how much higher the shuffled title is graded than under random sets."""
    claim = study.masks.claim
    found = NOTHING
    if claim is not None and claim.free:
        grades = expected_grades(study.case, study.labels)[:, 1]
        target, random = grades[study.rows([claim.target])[0]], grades[study.rows(claim.free)]
        p = rank_p(float(target), random, below=False)
        found = Change(float(target - random.mean()), None, p)
    return finding(
        study,
        "order_case",
        Text(
            "文章的例子：去掉语序头后打乱的标题的期望等级，比去掉随机头高多少",
            "The article's case: the shuffled title's expected grade without order heads, above that "
            "without random heads",
        ),
        found,
        unit=GRADES,
        said="3 − 2",
        primary=False,
        n_queries=1,
        sets=OF_ORDER,
        why=NO_RANDOM if claim else NO_HEADS,
    )
