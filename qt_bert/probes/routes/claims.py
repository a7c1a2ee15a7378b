"""What is claimed of routes, as findings.

Fixed before any run. Estimand of `direct_share`: (D(set) − mean D(layer-matched sets)) / T(set), side
above, margin 0. D is the sum over pairs of how the reader's focus changes when its query and key
alone read the residual stream without these heads, all other z held; T the same when they are
left out and nothing is held. Why so:

- the reader's [CLS] row, for that is what the article says the low heads feed; both of its entries
  together, for a share of one alone would hang on how the head divides its work;
- all in units of the one T(set): a random set's own T is often near 0, so that its own share would be
  anything. Under --full what the controls send of their own change stands beside it, pooled over
  the draws;
- where the interval of T(set) holds 0 there is no share and no verdict.

p is the rank of D(set) / T(set) among the draws, (1 + draws at least as large) / (1 + draws); the
interval resamples queries and draws. All other findings are descriptive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qt_bert.probes.claims import beyond
from qt_bert.probes.naming import Estimate
from qt_bert.probes.routes.passes import Outcome, Way
from qt_bert.probes.routes.shares import Shares
from qt_bert.probes.routes.study import Study
from qt_bert.probes.routes.words import (
    CONCLUSIONS,
    NO_CONTROLS,
    NOTHING_TO_SHARE,
    OTHERWISE,
    SHARE_OF_OWN,
    SHARE_OF_SET,
    SOURCE,
)
from qt_bert.results.probe import Finding, Verdict
from qt_bert.text import Text

MARGIN = 0.0
_CLAIMED = Text("低层匹配头的输出为第 10 层所用", "what low matching heads give, layer 10 uses")


def findings(study: Study, grade: Text) -> list[Finding]:
    """The claim, and what stands beside it; `grade` is what the second outcome is called."""
    return [_direct_share(study), *_by_entry(study, grade), *_otherwise(study)]


def _direct_share(study: Study) -> Finding:
    """More of the set's change of the reader's focus travels directly than layer-matched sets send."""
    found, p = study.reader.beyond("focus", "qk")
    reader = study.asked.reader
    return beyond(
        "direct_share",
        Text(
            f"匹配头改变 {reader} 的关注度，其中直接进入它的查询和键的份额，超过同层其他头",
            f"Of how the matching heads change the focus of {reader}, a larger share enters its query "
            "and key directly than others of their layers send",
        ),
        replace(SOURCE, value=_CLAIMED),
        found.value,
        found.samples,
        p=p,
        n_queries=study.reader.n_queries,
        margin=MARGIN,
        unit=SHARE_OF_SET,
        conclusions=_conclusions(study),
    )


def _conclusions(study: Study) -> dict[Verdict, Text]:
    said = dict(CONCLUSIONS)
    if not study.reader.told("focus"):
        said["inconclusive"] = NOTHING_TO_SHARE
    elif not study.draws:
        said["inconclusive"] = NO_CONTROLS
    return said


def _by_entry(study: Study, grade: Text) -> Iterator[Finding]:
    reader, row = study.asked.reader, Text("关注度", "focus")
    asked: list[tuple[Outcome, Way, Text, Text]] = [
        ("focus", "qk", row, Text("查询和键", "query and key")),
        ("focus", "q", row, Text("查询", "query")),
        ("focus", "k", row, Text("键", "key")),
        ("grade", "qk", grade, Text("查询和键", "query and key")),
        ("grade", "v", grade, Text("值", "value")),
    ]
    for outcome, way, what, entry in asked:
        yield _aside(
            f"{outcome}_share_{way}",
            Text(
                f"去掉匹配头引起的{what.zh}变化，直接经 {reader} 的{entry.zh}到达的份额",
                f"Of what leaving the matching heads out changes of the {what.en}, the share that "
                f"arrives by the {entry.en} of {reader} directly",
            ),
            study.reader,
            study.reader.share(outcome, way),
        )


def _otherwise(study: Study) -> Iterator[Finding]:
    """What --full adds: the controls' own share, and the set's by other means."""
    if study.layer is None:
        return
    reader = study.asked.reader
    yield _aside(
        "controls_own_share",
        Text(
            f"同层其他头改变 {reader} 的关注度，其中直接进入查询和键的份额（各组合计，占它们自己的变化）",
            f"Of how others of their layers change the focus of {reader}, the share that enters its "
            "query and key directly (all draws taken together, of their own change)",
        ),
        study.reader,
        study.reader.pooled("focus", "qk"),
        unit=SHARE_OF_OWN,
    )
    for name, shares in study.otherwise.items():
        how = OTHERWISE[name]
        yield _aside(
            f"focus_share_{name}",
            Text(
                f"关注度的变化中直接进入 {reader} 查询和键的份额（{how.zh}）",
                f"The share of the change of focus that enters the query and key of {reader} directly "
                f"({how.en})",
            ),
            shares,
            shares.share("focus", "qk"),
        )


def _aside(
    id: str, claim: Text, shares: Shares, found: Estimate, *, unit: Text = SHARE_OF_SET
) -> Finding:
    return beyond(
        id,
        claim,
        SOURCE,
        found.value,
        found.samples,
        p=None,
        n_queries=shares.n_queries,
        unit=unit,
        primary=False,
    )
