"""What is claimed of the matching heads' soft counts; fixed before any run.

Fitted: the model's expected grade (of one logit: its score) by least squares with intercept on
discovery, with one feature for each matching head (`soft_counts`). Tested: Pearson's r between what
the fit says and what the model says, on validation.

`surrogate_beyond_bm25`. Estimand: that r less the r of BM25 (k1 1.2, b 0.75, the same idf), fitted and
tested alike. Side: above. Margin: 0: the published difference is 0.396, for another kind of text and
model, and any part of it that is surely above 0 would bear the claim out. p: from the resamples of the
interval, which both share.

`surrogate_beyond_heads`. Estimand: that r less the mean r of layer-matched sets of as many heads
outside, each fitted and tested alike, each head in the direction in which `matching` scored it. Side:
above. Margin: 0, for the control holds what any heads of these layers would tell. p: the rank among them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond, bootstrap_p
from qt_bert.probes.controls import rank_p
from qt_bert.probes.naming import Estimate, beside_claims, mean_over
from qt_bert.probes.surrogate.study import Fits, Study
from qt_bert.probes.surrogate.words import (
    BEYOND_SOURCE,
    BM25_CONCLUSIONS,
    BM25_SOURCE,
    GRADE,
    HEADS_CONCLUSIONS,
    HEADS_SOURCE,
    NO_FIGURE,
    SCORE,
)
from qt_bert.results.probe import Finding, Source
from qt_bert.text import Text

UNIT = "r"


def findings(study: Study, context: Context) -> list[Finding]:
    """The two claims, where there are heads to ask about, then what stands beside them."""
    return [
        *_claims(study, context),
        *_beside(study.validation, "", study, context),
        *(
            finding
            for number, fits in enumerate(study.held_out, 1)
            for finding in _beside(fits, f"_held_out_{number}", study, context)
        ),
    ]


def target_of(context: Context) -> Text:
    """What is fitted: the expected grade, or the score of one logit."""
    return SCORE if context.model.checkpoint.settings.labels.logits == 1 else GRADE


def queries_of(fits: Fits) -> int:
    """How many queries the figures rest on."""
    return len({pair.query for pair in fits.on.pairs})


def matched_r(fits: Fits, seed: int) -> Estimate | None:
    """The mean r of the layer-matched sets, whose resamples draw among them too; None without any."""
    if not fits.matched:
        return None
    samples = mean_over(np.stack([one.r.samples for one in fits.matched]), seed, "surrogate")
    return Estimate(float(np.mean([one.r.value for one in fits.matched])), samples)


def _claims(study: Study, context: Context) -> Iterator[Finding]:
    fits = study.validation
    if fits.heads is None or study.asked is None:
        return
    own, who, what, queries = fits.heads.r, study.asked.said, target_of(context), queries_of(fits)
    gain = own.less(fits.bm25.r)
    yield beyond(
        "surrogate_beyond_bm25",
        Text(
            f"{who.zh}的软词频计数，比 BM25 更能拟合{what.zh}",
            f"The soft counts of {who.en} fit {what.en} better than BM25 does",
        ),
        BEYOND_SOURCE,
        gain.value,
        gain.samples,
        p=bootstrap_p(gain.samples, 0.0, queries),
        n_queries=queries,
        unit=UNIT,
        conclusions=BM25_CONCLUSIONS,
    )
    others = matched_r(fits, context.seed)
    more = None if others is None else own.less(others)
    yield beyond(
        "surrogate_beyond_heads",
        Text(
            f"{who.zh}的软词频计数，比同样几层里同样多的其他头更能拟合{what.zh}",
            f"The soft counts of {who.en} fit {what.en} better than those of as many other heads of "
            "the same layers",
        ),
        NO_FIGURE,
        None if more is None else more.value,
        None if more is None else more.samples,
        p=rank_p(own.value, np.array([one.r.value for one in fits.matched]), below=False),
        n_queries=queries,
        unit=UNIT,
        conclusions=HEADS_CONCLUSIONS,
    )


def _beside(fits: Fits, mark: str, study: Study, context: Context) -> Iterator[Finding]:
    """r and R² of the heads, and the r of what they are compared with, on one set of pairs."""
    what = target_of(context)
    zh, en = ("验证集", "validation") if not mark else (fits.on.name, fits.on.name)
    others = matched_r(fits, context.seed)
    if fits.heads is not None and study.asked is not None:
        who = study.asked.said
        counts = Text(f"{who.zh}的软词频计数", f"The soft counts of {who.en}")
        yield _plain("surrogate_r", counts, HEADS_SOURCE, fits.heads.r, fits, (what, zh, en), mark)
        yield _plain(
            "surrogate_r2", counts, NO_FIGURE, fits.heads.r2, fits, (what, zh, en), mark, "R²"
        )
    if others is not None:
        said = Text(
            "同层其他头的软词频计数（平均）", "The soft counts of others of their layers (mean)"
        )
        yield _plain("surrogate_matched", said, NO_FIGURE, others, fits, (what, zh, en), mark)
    for id, said, source, found in (
        ("surrogate_bm25", Text("BM25", "BM25"), BM25_SOURCE, fits.bm25),
        ("surrogate_overlap", Text("词重合", "The overlap of words"), NO_FIGURE, fits.overlap),
    ):
        yield _plain(id, said, source, found.r, fits, (what, zh, en), mark)


def _plain(
    id: str,
    said: Text,
    source: Source,
    found: Estimate,
    fits: Fits,
    where: tuple[Text, str, str],
    mark: str,
    unit: str = UNIT,
) -> Finding:
    what, zh, en = where
    claim = Text(
        f"{said.zh}对{what.zh}的拟合（{zh}）：{unit}",
        f"{said.en} fitted to {what.en} ({en}): {unit}",
    )
    return beside_claims(f"{id}{mark}", claim, source, found, unit, queries_of(fits))
