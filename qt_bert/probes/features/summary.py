"""What heads look at, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.probes.features import words
from qt_bert.probes.features.claims import rival
from qt_bert.probes.features.figures import kinds_of
from qt_bert.probes.features.kinds import OTHER, TUNED
from qt_bert.probes.features.looking import Looking
from qt_bert.probes.features.measures import (
    EMPTY,
    empty_heads,
    has_heads,
    known_mean,
    last_cls,
    over_heads,
)
from qt_bert.probes.features.study import Study
from qt_bert.text import Text, number, signed

NO_TREEBANK = Text(
    "没有给出树库（--treebank），所以没有主语和宾语，词性只有 jieba 的标注。",
    "No treebank was given (--treebank), so there are no subjects and objects, and parts of speech "
    "are jieba's alone.",
)
NO_BASE = Text(
    "没有给出微调前的模型（--base），所以不知道微调改变了什么。",
    "No model before fine-tuning was given (--base), so what tuning changes is not known.",
)


def summary(study: Study) -> Text:
    """The attention of all heads, of [CLS] in the last layer, and what the probe did without."""
    said = list(_sentences(study))
    return Text("".join(one.zh for one in said), " ".join(one.en for one in said))


def _sentences(study: Study) -> Iterator[Text]:
    seen = study.pairs.validation
    yield _special(study)
    yield from _most_looked_at(seen)
    yield from _change(seen)
    if has_heads(study.shape, -1):
        yield _last_layer(study)
    if study.treebank is None:
        yield NO_TREEBANK


def _special(study: Study) -> Text:
    """[CLS] and [SEP] over all heads, and the heads that rest mostly on what says nothing."""
    seen = study.pairs.validation
    heads, over = len(study.shape.all_heads), len(empty_heads(seen, study.shape))
    cls, sep = (_percent(known_mean(over_heads(seen.of(kind)))) for kind in ("cls", "sep"))
    return Text(
        f"全部头平均，[CLS] 得到 {cls} 的注意力，[SEP] 得到 {sep}；{heads} 个头里有 {over} 个把一半以上给了 "
        "[CLS]、[SEP] 和标点。",
        f"On average over all heads [CLS] gets {cls} of the attention and [SEP] {sep}; {over} of {heads} "
        "heads give over half to [CLS], [SEP] and punctuation.",
    )


def _most_looked_at(seen: Looking) -> Iterator[Text]:
    """The kind of word whose attention is furthest above its share of the tokens, over all heads."""
    lifts = {
        kind: known_mean(over_heads(seen.of(kind))) / known_mean(seen.rate(kind))
        for kind in kinds_of(seen)
        if kind not in (*EMPTY, OTHER)
    }
    if lifts:
        best = max(lifts, key=lambda kind: lifts[kind])
        name, value = words.NAMES[best], number(lifts[best], 2)
        yield Text(
            f"与词元占比相比，词里最受注意的是{name.zh}：{value} 倍。",
            f"Of words, most attention beside their share of the tokens goes to {name.en}: {value} "
            "times it.",
        )


def _change(seen: Looking) -> Iterator[Text]:
    """What fine-tuning changed for [CLS] and [SEP] together, and for nouns and negation."""
    if seen.before is None:
        yield NO_BASE
        return
    if not seen.has(TUNED):
        return
    special, tuned = (
        signed(
            100
            * sum(
                known_mean(over_heads(seen.of(kind) - seen.of(kind, "before"))) for kind in kinds
            ),
            1,
        )
        for kinds in (("cls", "sep"), (TUNED,))
    )
    yield Text(
        f"微调使 [CLS] 和 [SEP] 的注意力合计变化 {special} 个百分点，名词和否定词的变化 {tuned} 个百分点。",
        f"Fine-tuning changes the attention to [CLS] and [SEP] together by {special} points, to nouns "
        f"and negation by {tuned}.",
    )


def _last_layer(study: Study) -> Text:
    """What the claim about [CLS] of the last layer sets side by side."""
    seen = study.pairs.validation
    other = rival(study.pairs.discovery, seen)
    sep, most = (_percent(known_mean(last_cls(seen, kind))) for kind in ("sep", other))
    name = words.NAMES[other]
    return Text(
        f"最后一层的 [CLS]，给它看得最多的 [SEP] {sep}，给它看得最多的{name.zh}词元 {most}。",
        f"In the last layer [CLS] gives {sep} to the [SEP] it looks at most, and {most} to the token "
        f"it looks at most among {name.en}.",
    )


def _percent(share: float) -> str:
    return f"{number(100 * share, 1)} %"
