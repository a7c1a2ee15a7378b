"""What the article claims of word boundaries, as findings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.evaluation.arrays import BoolArray
from qt_bert.probes.claims import POINT, POINTS, beyond
from qt_bert.probes.word_ends.calibrate import LEAST_BALANCED
from qt_bert.probes.word_ends.conclusions import ABOVE_MAJORITY, BALANCED_HEAD, pretraining
from qt_bert.probes.word_ends.judge import Judged
from qt_bert.probes.word_ends.leaving_out import LeftOut
from qt_bert.probes.word_ends.references import GOLD
from qt_bert.probes.word_ends.study import Studies, Study
from qt_bert.probes.word_ends.union_claims import SHARE, of_union, p_over_queries
from qt_bert.probes.word_ends.words import (
    ACCURACY,
    BALANCED,
    CONTROLS,
    GRADED,
    PRETRAINED,
    RANDOM,
    WORD_F1,
    source,
)
from qt_bert.results import Finding, Text

F1 = Text("F1", "F1")


def findings(found: Studies) -> list[Finding]:
    """All claims, on validation: against the segmenter, then against a gold file."""
    listed = list(_of(found.main, ""))
    if found.gold is not None:
        listed += _of(found.gold, f"{GOLD}_")
    if found.left_out is not None:
        listed += _left_out(found.left_out)
    return listed


def _of(study: Study, prefix: str) -> Iterable[Finding]:
    zh, en = ("人工切分的文本上，", ", on texts that people segmented") if prefix else ("", "")
    yield from _best_head(study, prefix, zh, en)
    yield from of_union(study, prefix, zh, en)
    yield from _models(study, prefix, zh, en)


def majority(study: Study) -> BoolArray:
    """What the commoner answer on discovery says everywhere [D]."""
    known = study.texts.known[study.reference]
    return np.full(len(study.truth), bool(known.size) and bool(known.mean() >= 0.5))


def _best_head(study: Study, prefix: str, zh: str, en: str) -> Iterable[Finding]:
    yield _above_majority(study, f"{prefix}head_above_majority", zh, en)
    yield _balanced(study, f"{prefix}head_balanced", zh, en)
    for measure, words, said, unit in (
        ("accuracy", ACCURACY, "70 %", SHARE),
        ("word_f1", WORD_F1, None, F1),
    ):
        yield _beside(
            f"{prefix}head_{measure}",
            Text(f"{zh}这个头的{words.zh}", f"This head's {words.en}{en}"),
            said,
            study.best(GRADED),
            measure,
            unit,
        )
    rule = study.graded.best_by_rule
    yield _beside(
        f"{prefix}article_rule",
        Text(
            f"{zh}用文章的规则（不校准）读发现集上最好的头（{rule}），准确率",
            f"Accuracy of the article's rule, uncalibrated, on its best head of discovery "
            f"({rule}){en}",
        ),
        "70 %",
        study.judged(study.graded.by_rule[rule]),
        "accuracy",
        SHARE,
    )


def _above_majority(study: Study, id: str, zh: str, en: str) -> Finding:
    head, best = study.graded.best, study.best(GRADED)
    plain = study.judged(majority(study))
    return beyond(
        id,
        Text(
            f"{zh}发现集上最好的头（{head}）判断词边界的准确率高于总猜多数",
            f"The head best on discovery ({head}) tells word ends more accurately than the "
            f"majority answer{en}",
        ),
        source(Text("70 %（准确率，未给多数比例）", "70 % (accuracy; no majority rate given)")),
        (best.value("accuracy") - plain.value("accuracy")) / POINT,
        (best.samples("accuracy") - plain.samples("accuracy")) / POINT,
        p=p_over_queries(best.accuracy_shares() - plain.accuracy_shares()),
        n_queries=best.n_queries,
        unit=POINTS,
        conclusions=ABOVE_MAJORITY,
    )


def _balanced(study: Study, id: str, zh: str, en: str) -> Finding:
    head, best = study.graded.best, study.best(GRADED)
    return beyond(
        id,
        Text(
            f"{zh}发现集上最好的头（{head}）的平衡准确率高于 {LEAST_BALANCED:.2f}",
            f"The head best on discovery ({head}) has a balanced accuracy above "
            f"{LEAST_BALANCED:.2f}{en}",
        ),
        source(None),
        best.value("balanced"),
        best.samples("balanced"),
        p=p_over_queries(best.excess(LEAST_BALANCED)),
        n_queries=best.n_queries,
        margin=LEAST_BALANCED,
        unit=BALANCED,
        conclusions=BALANCED_HEAD,
    )


def _beside(
    id: str, claim: Text, said: str | None, judged: Judged, measure: str, unit: Text
) -> Finding:
    """A figure beside the claims, without a verdict."""
    return beyond(
        id,
        claim,
        source(said),
        judged.value(measure),
        judged.samples(measure),
        p=None,
        n_queries=judged.n_queries,
        unit=unit,
        primary=False,
    )


def _models(study: Study, prefix: str, zh: str, en: str) -> Iterable[Finding]:
    names = {
        GRADED: Text("微调后", "the tuned model"),
        PRETRAINED: Text("预训练后", "the pretrained model"),
        RANDOM: Text("随机权重", "random weights"),
    }
    for first, second, primary in (
        (PRETRAINED, RANDOM, True),
        (GRADED, RANDOM, False),
        (GRADED, PRETRAINED, False),
    ):
        if first not in study.models or second not in study.models:
            continue
        one, other = study.best(first), study.best(second)
        yield beyond(
            f"{prefix}{first}_over_{second}",
            Text(
                f"{zh}{names[first].zh}最好的头，平衡准确率高于{names[second].zh}最好的头",
                f"The best head of {names[first].en} has a higher balanced accuracy than that of "
                f"{names[second].en}{en}",
            ),
            source(None),
            (one.value("balanced") - other.value("balanced")) / POINT,
            (one.samples("balanced") - other.samples("balanced")) / POINT,
            p=p_over_queries(one.excess(0.0) - other.excess(0.0)),
            n_queries=one.n_queries,
            unit=POINTS,
            primary=primary,
            conclusions=pretraining(study.random_draws) if primary else None,
        )


def _left_out(found: LeftOut) -> Iterable[Finding]:
    for name, loss in found.losses.items():
        mode, _, control = name.partition(":")
        how = Text("", "") if mode == "zero" else Text("（换成均值）", " (replaced by their means)")
        yield beyond(
            f"left_out_{mode}_{control}",
            Text(
                f"去掉最好的 {len(found.heads)} 个词边界头{how.zh}，比去掉{CONTROLS[control].zh}损失更多",
                f"Without the {len(found.heads)} best word-end heads{how.en} the model loses more "
                f"than without {CONTROLS[control].en}",
            ),
            source(None),
            loss.value,
            loss.samples,
            p=loss.p,
            n_queries=found.n_queries,
            side="below",
            unit=POINTS,
            primary=False,
        )
