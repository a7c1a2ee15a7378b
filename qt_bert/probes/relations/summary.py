"""The study of links in a few sentences, and what it could not have seen."""

from __future__ import annotations

from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.sentences import LEAST_LINKS
from qt_bert.probes.relations.study import Study
from qt_bert.probes.relations.tree import HEADS, LEFT, RIGHT
from qt_bert.results.probe import Finding
from qt_bert.text import Text, counted, interval, joined, signed

_NOT_BASE = Text(
    "没有给出微调前的模型（--base），看的是这个模型自己的头。",
    "No model before fine-tuning was given (--base): the heads are those of this model itself.",
)
_NO_TREEBANK = Text(
    "没有给出树库（--treebank），句法关系与句法树未作检验。",
    "No treebank was given (--treebank): links of syntax and the tree were not tested.",
)
_TOO_FEW = Text(
    f"树库太小：没有一种关系在发现集和验证集上各有 {LEAST_LINKS} 对，句法关系未作检验。",
    f"The treebank is too small: no relation has {LEAST_LINKS} links in each half, so that links of "
    "syntax were not tested.",
)
_NO_ALIGNED = Text(
    "这些 pair 没有标注同义片段，同义关系未作检验。",
    "These pairs have no aligned spans: links of one meaning were not tested.",
)


def summary(study: Study) -> Text:
    """What was done without; named heads, whether they are order heads; the tree; the largest loss."""
    missing = []
    if not study.on_base:
        missing.append(_NOT_BASE)
    if study.words is None:
        missing.append(_NO_TREEBANK)
    elif not study.words.discovery.relations:
        missing.append(_TOO_FEW)
    if ALIGNED not in study.relations:
        missing.append(_NO_ALIGNED)
    parts = [_named(study)] if study.relations else []
    return joined([*parts, *_tree(study), *_left_out(study), *missing])


def _named(study: Study) -> Text:
    named, asked = study.discovery.named, len(study.relations)
    if not named:
        return Text(
            f"{asked} 种关系里，没有一种有达标的头。",
            f"Of {counted(asked, 'relation')} none has a head that passes.",
        )
    heads = study.named
    in_order = study.order_heads or []
    both = [head for head in heads if head in in_order]
    every, order = len(study.discovery.heads), len(in_order)
    listed = "、".join(f"{_short(r).zh} {head}" for r, head in named.items())
    english = ", ".join(f"{_short(r).en} {head}" for r, head in named.items())
    return Text(
        f"{asked} 种关系里 {len(named)} 种有达标的头：{listed}。这 {len(heads)} 个头里有 {len(both)} 个同时是"
        f"语序头（全部 {every} 个头里有 {order} 个）。",
        f"Of {counted(asked, 'relation')} {len(named)} have a head that passes: {english}. Order "
        f"heads among these {len(heads)}: {len(both)} (among all {every}: {order}).",
    )


def _short(relation: str) -> Text:
    return Text("同义", "same meaning") if relation == ALIGNED else Text(relation, relation)


def _tree(study: Study) -> list[Text]:
    tree = study.tree
    if tree is None or not tree.words.sum():
        return []
    heads, right, left = (f"{tree.score(way):.1%}" for way in (HEADS, RIGHT, LEFT))
    return [
        Text(
            f"用这些关系最好的头逐词找支配词，找对 {heads}（右分支链 {right}，左分支链 {left}）。",
            f"Attaching words as the relations' best heads point is right for {heads} (right-branching "
            f"chain {right}, left-branching {left}).",
        )
    ]


def _left_out(study: Study) -> list[Text]:
    found = study.left_out
    if found is None:
        return []
    worst, metric = found.worst, found.metric_name
    ends = worst.interval
    around = "" if ends is None else f" {interval(*ends, 1)}"
    return [
        Text(
            f"逐个去掉达标的头，对{metric.zh}最不利的是去掉 {worst.head}：{signed(worst.change, 1)} 个百分点{around}"
            f"（{len(found.pairs)} 对）。",
            f"Leaving the named heads out one by one, the largest loss of {metric.en} is without "
            f"{worst.head}: {signed(worst.change, 1)} points{around} "
            f"({counted(len(found.pairs), 'pair')}).",
        )
    ]


def resolution(found: list[Finding]) -> dict[str, str] | None:
    """Half the interval of the first claim, and that of the heads left out."""
    halves = {
        one.id: (one.ci_high - one.ci_low) / 2
        for one in found
        if one.ci_low is not None and one.ci_high is not None
    }
    said = []
    for id in ("relations_words", "relations_aligned"):
        if id in halves:
            what = Text("有关系的词", "linked words")
            if id == "relations_aligned":
                what = Text("同义片段", "spans of one meaning")
            said.append(
                Text(
                    f"{what.zh}多得的注意力，区间半宽 {halves[id]:.1f} 个百分点。",
                    f"The interval of what {what.en} get more is ± {halves[id]:.1f} points of attention.",
                )
            )
    if "relations_left_out" in halves:
        margin = halves["relations_left_out"]
        said.append(
            Text(
                f"逐个去掉各头，变化的区间合起来半宽 {margin:.1f} 个百分点。",
                f"The intervals of all heads left out span ± {margin:.1f} points.",
            )
        )
    whole = joined(said)
    return {"zh": whole.zh, "en": whole.en} if said else None
