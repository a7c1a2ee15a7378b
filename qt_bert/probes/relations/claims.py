"""What is claimed of heads and links: that heads look along them, draw no tree, and are not missed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import POINT, POINTS, beyond, bootstrap_p, no_effect
from qt_bert.probes.naming import one_sided_p, resampled_ratio
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.heads import Excess
from qt_bert.probes.relations.study import Study
from qt_bert.probes.relations.tree import HEADS, LEFT, RIGHT
from qt_bert.probes.relations.words import (
    ATTENTION,
    INTERPRETABLE,
    PERCENT,
    TREE,
    USED,
    relation_name,
)
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.multiplicity import NO_EFFECT_ACCURACY
from qt_bert.text import Text

_BESIDE = Source(article=INTERPRETABLE.article, section=INTERPRETABLE.section)


def findings(study: Study, context: Context) -> list[Finding]:
    """The claims, as far as there was something to test; then what stands beside them."""
    return [
        *_words(study, context),
        *_aligned(study, context),
        *_tree(study),
        *_left_out(study),
        *_each_relation(study, context),
    ]


def resampled(sums: FloatArray, counts: FloatArray, context: Context) -> FloatArray:
    """Σ sums / Σ counts of `sums` and `counts` [units] under resampled units [R]."""
    return resampled_ratio(sums, counts, context.resamples, context.seed)


def chosen(study: Study, relation: str) -> tuple[Excess, FloatArray]:
    """A relation on validation, and its units' excess in the head chosen on discovery [units]."""
    one = study.validation.excesses[relation]
    return one, one.sums[:, study.discovery.excesses[relation].best]


def _words(study: Study, context: Context) -> Iterator[Finding]:
    """All relations of words together, each in its own head."""
    found = [chosen(study, relation) for relation in study.relations if relation != ALIGNED]
    if not found:
        return
    sums = np.sum([one for _, one in found], axis=0)
    counts = np.sum([one.counts for one, _ in found], axis=0)
    known = counts > 0
    yield beyond(
        "relations_words",
        Text(
            f"为 {len(found)} 种依存关系各在发现集上选一个头：它给有这种关系、没有共同字的两个词的注意力，多于给"
            "同一句里距离和词长都相同、没有关系的两个词",
            f"The heads chosen on discovery for {len(found)} dependency relations give two words so "
            "linked, without a character in common, more attention than unlinked words of the same "
            "sentence, distance and lengths",
        ),
        INTERPRETABLE,
        float(sums.sum() / counts.sum()) / PERCENT,
        resampled(sums, counts, context) / PERCENT,
        p=float(one_sided_p(sums[known])),
        n_queries=int(known.sum()),
        unit=ATTENTION,
        conclusions=_LOOK,
    )


def _aligned(study: Study, context: Context) -> Iterator[Finding]:
    if ALIGNED not in study.relations:
        return
    yield _one(
        "relations_aligned",
        Text(
            "在发现集上为同义片段选出的头，给查询与标题中意思相同、没有共同字的两个片段的注意力，多于给同样"
            "长的其他片段",
            "The head chosen on discovery for spans of one meaning gives such spans of query and title, "
            "without a character in common, more attention than other spans as long",
        ),
        ALIGNED,
        study,
        context,
        primary=True,
    )


def _each_relation(study: Study, context: Context) -> Iterator[Finding]:
    for relation, head in study.discovery.named.items():
        if relation == ALIGNED or relation not in study.relations:
            continue
        name = relation_name(relation)
        yield _one(
            f"relations_{relation.replace(':', '_')}",
            Text(
                f"{head} 给有“{name.zh}”关系的两个词更多注意力",
                f"{head} gives two words linked as {name.en} more attention",
            ),
            relation,
            study,
            context,
            primary=False,
        )


def _one(
    id: str, claim: Text, relation: str, study: Study, context: Context, *, primary: bool
) -> Finding:
    one, sums = chosen(study, relation)
    column = study.discovery.excesses[relation].best
    return beyond(
        id,
        claim,
        INTERPRETABLE if primary else _BESIDE,
        float(one.value[column]) / PERCENT,
        resampled(sums, one.counts, context) / PERCENT,
        p=float(one.p[column]),
        n_queries=int((one.counts > 0).sum()),
        unit=ATTENTION,
        primary=primary,
        conclusions=_LOOK if primary else None,
    )


def _tree(study: Study) -> Iterator[Finding]:
    """Against the right-branching chain; beside it against the left-branching one."""
    tree = study.tree
    if tree is None or not tree.words.sum():
        return
    score = tree.score(HEADS)
    for way, primary in ((RIGHT, True), (LEFT, False)):
        samples = (tree.samples(HEADS) - tree.samples(way)) / POINT
        side = Text("前一个词", "the word before it")
        if way == LEFT:
            side = Text("后一个词", "the word after it")
        sentences = int((tree.words > 0).sum())
        p = bootstrap_p(samples, 0.0, sentences)
        yield beyond(
            f"relations_tree_{way}",
            Text(
                f"按每种关系最好的头逐词找支配词，找对的比让每个词都依附{side.zh}还少",
                "Attaching each word as the best head of some relation points is right less often "
                f"than hanging every word on {side.en}",
            ),
            TREE if primary else Source(article=TREE.article, section=TREE.section),
            (score - tree.score(way)) / POINT,
            samples,
            p=p,
            n_queries=sentences,
            side="below",
            unit=POINTS,
            primary=primary,
            conclusions=_tree_conclusions(score) if primary else None,
        )


def _left_out(study: Study) -> Iterator[Finding]:
    """One claim of all heads, whose value is the largest loss."""
    found = study.left_out
    if found is None:
        return
    worst, n = found.worst, len(found.losses)
    metric, margin = found.metric_name, NO_EFFECT_ACCURACY / POINT
    yield no_effect(
        "relations_left_out",
        Text(
            f"逐个去掉这 {n} 个头（注意力改为均匀），{metric.zh}都不变；变化最不利的是 {worst.head}",
            f"Without any one of these heads ({n}; attention made uniform) {metric.en} stays as it is; "
            f"the largest loss is without {worst.head}",
        ),
        USED,
        worst.change,
        found.of_all(margin),
        n_queries=found.n_queries,
        margin=margin,
        unit=POINTS,
        conclusions=_UNUSED,
        sets=("relations",),
    )


_LOOK: dict[Verdict, Text] = {
    "reproduced": Text(
        "有这样的头：注意力与这种关系相关。相关不等于被用到，见去掉它们的结果。",
        "There are such heads: their attention goes with the link. Whether it is used is another "
        "question; see what leaving them out does.",
    ),
    "not reproduced": Text(
        "在新的文本上，选出的头并不更看有关系的词。",
        "On new texts the chosen heads do not favour linked words.",
    ),
    "inconclusive": Text(
        "这个样本看不出选出的头是否更看有关系的词。",
        "This sample does not show whether the chosen heads favour linked words.",
    ),
}
_UNUSED: dict[Verdict, Text] = {
    "reproduced": Text(
        "这些头看得见关系，判档却不靠其中任何一个。",
        "These heads see links, and grading rests on none of them alone.",
    ),
    "not reproduced": Text(
        "至少去掉其中一个头，结果就变差：判档用到了它（未必因为它看这种关系）。",
        "Without one of them at least the model grades worse: it is used, if not for the link's sake.",
    ),
    "inconclusive": Text(
        "区间比 ± 2 个百分点宽，不能断定每个头都可有可无；看 --full。",
        "The intervals reach beyond ± 2 points, so that not every head is shown to be dispensable; "
        "see --full.",
    ),
}


def _tree_conclusions(score: float) -> dict[Verdict, Text]:
    return {
        "reproduced": Text(
            "注意力里没有完整的句法树。", "There is no full tree in the attention of these heads."
        ),
        "not reproduced": Text(
            f"比右分支链强，但只找对 {score:.0%} 的支配词，仍不是完整的句法树。中文的右分支链本来就弱。",
            f"Better than a right-branching chain, which is a weak one for Chinese; yet with {score:.0%} "
            "of the words attached rightly it is no full tree.",
        ),
        "inconclusive": Text(
            f"与右分支链分不出高下；只找对 {score:.0%} 的支配词，不是完整的句法树。",
            f"Not told from a right-branching chain; with {score:.0%} of the words attached rightly "
            "it is no full tree.",
        ),
    }
