"""What the article claims of word boundaries, as findings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.evaluation.arrays import BoolArray, FloatArray
from qt_bert.probes.claims import POINTS, beyond
from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.word_ends.calibrate import LEAST_BALANCED
from qt_bert.probes.word_ends.conclusions import ABOVE_MAJORITY, BALANCED_HEAD, PRETRAINING, WORTH
from qt_bert.probes.word_ends.judge import Judged
from qt_bert.probes.word_ends.leaving_out import POINT, LeftOut
from qt_bert.probes.word_ends.references import GOLD
from qt_bert.probes.word_ends.study import GRADED, PRETRAINED, RANDOM, Studies, Study
from qt_bert.probes.word_ends.union import Union
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source

ARTICLE = "heads_of_query_title_bert"
SECTION = "2.2"
SHARE = Text("判断的比例", "share of decisions")
BALANCED = Text("平衡准确率", "balanced accuracy")
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
    yield from _union(study, prefix, zh, en)
    yield from _models(study, prefix, zh, en)


def majority(study: Study) -> BoolArray:
    """What the commoner answer on discovery says everywhere [D]."""
    known = study.texts.known[study.reference]
    return np.full(len(study.truth), bool(known.size) and bool(known.mean() >= 0.5))


def _best_head(study: Study, prefix: str, zh: str, en: str) -> Iterable[Finding]:
    head, best = study.graded.best, study.best(GRADED)
    plain = study.judged(majority(study))
    yield beyond(
        f"{prefix}head_above_majority",
        Text(
            f"{zh}发现集上最好的头（{head}）判断词边界的准确率高于总猜多数",
            f"The head best on discovery ({head}) tells word ends more accurately than the "
            f"majority answer{en}",
        ),
        _source("70 %"),
        (best.value("accuracy") - plain.value("accuracy")) / POINT,
        (best.samples("accuracy") - plain.samples("accuracy")) / POINT,
        p=_p(best.by_query("accuracy") - plain.by_query("accuracy")),
        n_queries=best.n_queries,
        unit=POINTS,
        conclusions=ABOVE_MAJORITY,
    )
    yield beyond(
        f"{prefix}head_balanced",
        Text(
            f"{zh}发现集上最好的头（{head}）的平衡准确率高于 {LEAST_BALANCED:.2f}",
            f"The head best on discovery ({head}) has a balanced accuracy above "
            f"{LEAST_BALANCED:.2f}{en}",
        ),
        _source(None),
        best.value("balanced"),
        best.samples("balanced"),
        p=_p(best.by_query("balanced") - LEAST_BALANCED),
        n_queries=best.n_queries,
        margin=LEAST_BALANCED,
        unit=BALANCED,
        conclusions=BALANCED_HEAD,
    )
    for measure, words, unit in (
        ("accuracy", Text("准确率", "accuracy"), SHARE),
        ("word_f1", Text("词 F1", "word F1"), F1),
    ):
        yield _beside(
            f"{prefix}head_{measure}",
            Text(f"{zh}这个头的{words.zh}", f"This head's {words.en}{en}"),
            "70 %",
            best,
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


def _beside(id: str, claim: Text, said: str, judged: Judged, measure: str, unit: Text) -> Finding:
    """A figure beside the claims, without a verdict."""
    return beyond(
        id,
        claim,
        _source(said),
        judged.value(measure),
        judged.samples(measure),
        p=None,
        n_queries=judged.n_queries,
        unit=unit,
        primary=False,
    )


def _union(study: Study, prefix: str, zh: str, en: str) -> Iterable[Finding]:
    union, k = study.union, study.k
    _, worth = union.samples(k, study.resamples, study.seed)
    yield beyond(
        f"{prefix}union_worth",
        Text(
            f"{zh}“有一个头判断正确就行”（前 {k} 个头）多于碰巧：(U − U₀)/(1 − U₀) > 0",
            f"“One head is right” (of the first {k}) is more than luck: (U − U₀) / (1 − U₀) > 0{en}",
        ),
        _source(None),
        float(union.worth[k]),
        worth,
        p=_p(union.excess(k)),
        n_queries=len(union.size),
        unit=Text("碰巧之外的比例", "share of what luck leaves"),
        conclusions=WORTH,
    )
    heads = len(study.graded.order)
    for name, one, number, words in (
        ("union", union, heads, Text("全部头", "all heads")),
        ("union_at_k", union, k, Text(f"前 {k} 个头", f"the first {k} heads")),
        (
            "union_article_rule",
            study.union_by_rule,
            heads,
            Text("全部头按文章的规则", "all heads by the article's rule"),
        ),
    ):
        yield _union_share(study, f"{prefix}{name}", one, number, words, zh, en)


def _union_share(
    study: Study, id: str, union: Union, k: int, words: Text, zh: str, en: str
) -> Finding:
    share, _ = union.samples(k, study.resamples, study.seed)
    luck = union.chance[k]
    return beyond(
        id,
        Text(
            f"{zh}{words.zh}中有一个判断正确的比例（碰巧：{luck:.1%}）",
            f"Share that one of {words.en} gets right (by luck: {luck:.1%}){en}",
        ),
        _source("96 %"),
        float(union.share[k]),
        share,
        p=None,
        n_queries=len(union.size),
        unit=SHARE,
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
            _source("MLM" if primary else None),
            (one.value("balanced") - other.value("balanced")) / POINT,
            (one.samples("balanced") - other.samples("balanced")) / POINT,
            p=_p(one.by_query("balanced") - other.by_query("balanced")),
            n_queries=one.n_queries,
            unit=POINTS,
            primary=primary,
            conclusions=PRETRAINING if primary else None,
        )


def _left_out(found: LeftOut) -> Iterable[Finding]:
    controls = {
        "matched": Text("同层随机头", "random heads of the same layers"),
        "free": Text("任意随机头", "random heads anywhere"),
        "loud": Text("输出一样大的随机头", "random heads as loud"),
    }
    for name, loss in found.losses.items():
        mode, _, control = name.partition(":")
        how = Text("", "") if mode == "zero" else Text("（换成均值）", " (replaced by their means)")
        yield beyond(
            f"left_out_{mode}_{control}",
            Text(
                f"去掉最好的 {len(found.heads)} 个词边界头{how.zh}，比去掉{controls[control].zh}损失更多",
                f"Without the {len(found.heads)} best word-end heads{how.en} the model loses more "
                f"than without {controls[control].en}",
            ),
            _source(None),
            loss.value,
            loss.samples,
            p=loss.p,
            n_queries=found.n_queries,
            side="below",
            unit=POINTS,
            primary=False,
        )


def _p(by_query: FloatArray) -> float | None:
    """One-sided p of a mean over queries above zero; None where fewer than two queries speak."""
    return float(one_sided_p(by_query)) if np.isfinite(by_query).sum() > 1 else None


def _source(value: str | None) -> Source:
    return Source(article=ARTICLE, section=SECTION, value=value)
