"""Words of the study of links that stand in more than one place."""

from __future__ import annotations

from qt_bert.models.heads import Head
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.tree import HEADS, LEFT, RIGHT
from qt_bert.results.probe import Source
from qt_bert.text import Text

PERCENT = 0.01
ATTENTION = Text("个百分点的注意力", "points of attention")

INTERPRETABLE = Source(
    article="dark_secrets_of_bert",
    section="Are there any linguistically interpretable self-attention heads?",
    value=Text(
        "两个头：第 1 层第 2 个、第 7 层第 6 个", "two: head 2 in layer 1, head 6 in layer 7"
    ),
)
USED = Source(
    article="dark_secrets_of_bert",
    section="But... what information actually gets used at inference time?",
    value=Text("去掉这两个头并不变差", "no worse without these two heads"),
)
TREE = Source(
    article="primer_in_bertology",
    section="实验现象",
    value=Text("注意力权重拼不出完整的句法树", "attention weights give no full tree"),
)

_RELATIONS = {
    ALIGNED: Text("同义（跨文本）", "same meaning (across texts)"),
    "acl": Text("定语从句", "clause on a noun"),
    "advcl": Text("状语从句", "adverbial clause"),
    "advmod": Text("副词修饰", "adverb"),
    "amod": Text("形容词修饰", "adjective"),
    "appos": Text("同位", "apposition"),
    "aux": Text("助动词", "auxiliary"),
    "case": Text("介词、方位词、助词", "case marking"),
    "cc": Text("并列连词", "coordinating conjunction"),
    "ccomp": Text("宾语从句", "clausal object"),
    "clf": Text("量词", "classifier"),
    "compound": Text("复合词", "compound"),
    "conj": Text("并列", "conjunct"),
    "cop": Text("系动词", "copula"),
    "csubj": Text("主语从句", "clausal subject"),
    "det": Text("限定词", "determiner"),
    "discourse": Text("语气成分", "discourse element"),
    "flat": Text("平列专名", "flat name"),
    "iobj": Text("间接宾语", "indirect object"),
    "mark": Text("从句标记", "clause marker"),
    "nmod": Text("名词修饰", "noun on a noun"),
    "nsubj": Text("主语", "subject"),
    "nummod": Text("数词修饰", "numeral"),
    "obj": Text("宾语", "object"),
    "obl": Text("旁语", "oblique"),
    "parataxis": Text("并置小句", "parataxis"),
    "xcomp": Text("谓词补语", "open complement"),
}

WAYS = {
    HEADS: Text("每种关系最好的头", "best head per relation"),
    RIGHT: Text("右分支链：依附前一个词", "right-branching chain"),
    LEFT: Text("左分支链：依附后一个词", "left-branching chain"),
}


def relation_name(relation: str) -> Text:
    """A label with what it means, where that is listed: `nsubj 主语`; a subtype goes by its label."""
    known = _RELATIONS.get(relation.partition(":")[0])
    if known is None:
        return Text(relation, relation)
    if relation == ALIGNED:
        return known
    return Text(f"{relation} {known.zh}", f"{relation} ({known.en})")


def in_head(relation: str, head: Head, *, order: bool) -> Text:
    """A relation and its head, marked `（序）` where that is an order head, too."""
    name = relation_name(relation)
    mark = Text("（序）", " (order)") if order else Text("", "")
    return Text(f"{name.zh} · {head}{mark.zh}", f"{name.en} · {head}{mark.en}")
