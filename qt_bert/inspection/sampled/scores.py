"""Scores of every head on a sample, one function a probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.families import single
from qt_bert.ablation.loop import sweep
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.variant import with_plain
from qt_bert.encoder.heads import Head
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.sampled.sample import SLICE_TOKENS, Sample
from qt_bert.pairs import Pair
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.probes.common.averages import means
from qt_bert.probes.common.naming import LEAST_WEIGHT, by_query, ranked
from qt_bert.probes.common.streams import gathered, stream
from qt_bert.probes.finetuning.compare import WEIGHTS, compare
from qt_bert.probes.readers.cls_row import NAME, QUANTITIES, Places, cls_row
from qt_bert.probes.readers.study import layer_of
from qt_bert.probes.term_matching.cells import DIRECTIONS
from qt_bert.probes.term_matching.replacement import DRAWS
from qt_bert.probes.term_matching.scores import K as MATCHING
from qt_bert.probes.term_matching.scores import score_heads
from qt_bert.probes.word_ends.calibrate import LEAST_BALANCED, calibrate
from qt_bert.probes.word_ends.decisions import asked_of, decisions_of
from qt_bert.probes.word_ends.readers import balanced_of
from qt_bert.probes.word_ends.references import ends_of
from qt_bert.probes.word_ends.union import LEAST_DECISIONS
from qt_bert.probes.word_ends.weights import weights_of
from qt_bert.probes.word_order.maps import OFFSETS
from qt_bert.probes.word_order.masks import K as ORDER
from qt_bert.probes.word_order.scores import order_scores
from qt_bert.results.head_table import HeadTable
from qt_bert.shipped import DEV, TEST

EFFECT_PAIRS = 24
"""Pairs on which every head is left out alone."""


def matching(sample: Sample) -> tuple[HeadTable, list[Head]]:
    """The scores of matching, and the best heads below the readers' layer."""
    one, pairs = sample.inspected, sample.pairs
    queries = {pair.query for pair in pairs}
    with sample.parts.part("matching", (1 + DRAWS) * len(pairs)) as shown:
        scores = score_heads(sample.scorer, pairs, one.segmenter, queries, shown=shown)
    ratio = scores.ratio()
    columns = {"score": scores.score}
    columns |= {name: ratio[..., place] for place, name in enumerate(DIRECTIONS)}
    low = [head for head in sample.shape.all_heads if head.layer < layer_of(sample.shape)]
    best = scores.best(_at_most(MATCHING, scores.score.size))
    below = scores.best(_at_most(MATCHING, len(low)), low)
    return sample.table("matching", pairs, columns, {"matching": best}), below


def order(sample: Sample) -> HeadTable:
    """Lifts on shuffled characters, and the best heads that follow places."""
    pairs = sample.pairs
    with sample.parts.part("order", 2 * len(pairs)) as shown:
        found = order_scores(sample.scorer, pairs, seed=0, tokens=SLICE_TOKENS, shown=shown)
    offsets = np.where(np.isfinite(found.score), np.array(OFFSETS)[found.offset], np.nan)
    columns = {
        "score": found.score,
        "offset": offsets,
        "identity": found.identity,
        "weight": found.weight,
    }
    best = found.best(_at_most(ORDER, found.score.size))
    return sample.table("order", pairs, columns, {"order": best})


def boundary(sample: Sample) -> HeadTable:
    """Heads read on dev, heard on test, against the segmenter."""
    scorer, cut = sample.scorer, sample.inspected.segmenter
    asked = asked_of(sample.dev)
    new = asked_of(sample.test, {one.text for one in asked})
    known_ones = decisions_of(scorer.tokenizer, asked, least=LEAST_DECISIONS)
    others = decisions_of(scorer.tokenizer, new)
    units = len(known_ones.pairs) + len(others.pairs)
    with sample.parts.part("boundary", units) as shown:
        seen, heard = (weights_of(scorer, one, shown) for one in (known_ones, others))
    labels, truth = (
        one.labels(lambda text: ends_of(cut.spans(text))) for one in (known_ones, others)
    )
    calibrated = calibrate(seen, known_ones, labels, shifts=0, seed=0)
    columns = {
        "balanced": balanced_of(calibrated.say(heard), truth),
        "discovery_balanced": calibrated.named.score,
        "rule_balanced": balanced_of(heard.article_says(), truth),
        "weight_on_text": heard.own,
    }
    score = columns["balanced"]
    best = [h for h in ranked(score) if score[h] >= LEAST_BALANCED and heard.own[h] >= LEAST_WEIGHT]
    return sample.table("boundary", sample.test, columns, {"boundary": best}, (TEST,))


def focus(sample: Sample, sets: Mapping[str, Iterable[Head]]) -> HeadTable:
    """[CLS]'s rows; `sets` are those that the page expects of this probe."""
    one, pairs = sample.inspected, sample.pairs
    texts = _texts(pairs)
    rows = cls_row(range(sample.shape.layers), Places(texts, one.segmenter))
    with sample.parts.part("focus", len(pairs)) as shown:
        found = stream(sample.scorer, texts, [rows], shown=shown)[NAME][0]
    mean = means(by_query(found, [pair.query for pair in pairs]))
    columns = {name: mean[..., place] for place, name in enumerate(QUANTITIES)}
    return sample.table("focus", pairs, columns, sets)


def shift(sample: Sample, base: Inspected) -> HeadTable:
    """How far each head's attention moved since `base`."""
    one, pairs = sample.inspected, sample.dev
    with sample.parts.part("shift", len(pairs)) as shown:
        seen = compare(base.scorer.encoder, sample.scorer, pairs, one.segmenter, shown=shown)
    columns = {name: means(seen.alike(name)) for name in ("js_distance", "cosine")}
    for when in ("before", "after"):
        columns[f"{WEIGHTS[0]}_{when}"] = means(seen.weight(when, WEIGHTS[0]))
    return sample.table("shift", pairs, columns, {}, (DEV,))


def effects(sample: Sample) -> tuple[HeadTable, tuple[Head, ...]]:
    """How far each head's absence moves the grades; and the reader: whose absence costs most."""
    pairs = spread_over_queries(sample.dev, EFFECT_PAIRS)
    variants = with_plain(single(sample.shape, lambda heads: HeadMask(tuple(heads))))
    with sample.parts.part("redundancy", len(variants) * len(pairs)) as shown:
        batches = sample.scorer.batches(_texts(pairs), SLICE_TOKENS)
        swept = sweep(sample.scorer.encoder, batches, variants, tokens=SLICE_TOKENS, shown=shown)
        logits = gathered(swept, len(pairs))["logits"]
    changes = Effects(logits, pairs, sample.inspected.labels, resamples=0, draws=0)
    columns = {
        name: sample.shape.spread(
            [_number(changes.change(row, name)) for row in range(1, len(variants))]
        )
        for name in ("kl", "log_loss")
        if changes.base(name) is not None
    }
    moved = sample.shape.spread(np.abs(logits[1:] - logits[0]).mean(axis=(1, 2)))
    cost = columns.pop("log_loss", columns.get("kl", moved))
    layer = layer_of(sample.shape)
    worst = int(np.argmax(np.nan_to_num(cost[layer], nan=-np.inf)))
    reader = (Head(layer, worst),) if cost[layer, worst] > 0 else ()
    return sample.table("redundancy", pairs, columns, {}, (DEV,)), reader


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _at_most(k: int, heads: int) -> int:
    """As the probes choose: a quarter of the heads at most, and at least one."""
    return min(k, max(1, heads // 4))


def _texts(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in pairs]
