"""The study of word order in one line."""

from __future__ import annotations

import numpy as np

from qt_bert.probes.order.changes import NO_HEADS, against, missing
from qt_bert.probes.order.figures import case_values
from qt_bert.probes.order.head_scores import LEAST_LIFT
from qt_bert.probes.order.study import Study
from qt_bert.probes.order.training import Trained
from qt_bert.text import Text, counted

_TRAINED = {
    "yes": Text(
        "这个检查点训练时见过打乱的标题，S 里也有它学来的部分。",
        "This checkpoint saw shuffled titles in training, so S also measures what it was taught.",
    ),
    "unknown": Text(
        "检查点的文件没有说明训练时是否见过打乱的标题。",
        "The checkpoint's files do not say whether it saw shuffled titles in training.",
    ),
}


def summary(study: Study, trained: Trained) -> Text:
    """How many heads are named, S / R with and without the order heads, the case, the training."""
    named, ratio, case = _named(study), _ratio(study), _case(study)
    told = _TRAINED[trained]
    return Text(
        f"{named.zh}{ratio.zh}{case.zh}{told.zh}",
        f"{named.en} {ratio.en} {case.en} {told.en}",
    )


def _named(study: Study) -> Text:
    total, scores = len(study.shape.all_heads), study.discovery
    named = scores.named().heads()
    places = sum(bool(scores.follow_places[head]) for head in named)
    return Text(
        f"字被打乱后，{total} 个头中有 {len(named)} 个给某个固定距离的邻字的注意力至少是别的字的 "
        f"{LEAST_LIFT:g} 倍，其中 {places} 个的注意力图跟着位置而不跟着字走（身份指数 < 0）。",
        "With characters shuffled, a neighbour at some fixed distance gets at least "
        f"{LEAST_LIFT:g} times the attention of another character from {len(named)} of {total} "
        "heads; of these, those whose maps follow places rather than characters (identity index "
        f"< 0): {places}.",
    )


def _ratio(study: Study) -> Text:
    claim, found = study.masks.claim, study.sensitivity
    plain, cost = (float(found.values(name, [0])[0]) for name in ("ratio", "sensitivity"))
    if claim is None:
        return Text(f"{NO_HEADS.zh}。", f"{NO_HEADS.en.capitalize()}.")
    out = float(found.values("ratio", study.rows([claim.target]))[0])
    if not (np.isfinite(plain) and np.isfinite(out)):
        why = missing(study)
        return Text(f"S/R 没有定义：{why.zh}。", f"S/R is not defined: {why.en}.")
    beyond = against(study, "ratio", claim, "matched", below=True)
    p = "—" if beyond.p is None else f"{beyond.p:.2g}"
    k, n = len(study.order_heads), found.n_queries
    than = Text("", "")
    if claim.matched:
        than = Text(
            f"，与同层随机头之差 {beyond.value:+.2f}（p = {p}）",
            f", {beyond.value:+.2f} against random heads of the same layers (p = {p})",
        )
    return Text(
        f"在 {n} 个查询上，打乱标题的字使高档对的期望等级下降 {cost:.2f}（S/R = {plain:.2f}）；去掉 "
        f"{k} 个语序头后 S/R = {out:.2f}{than.zh}。",
        f"On {counted(n, 'query', 'queries')}, shuffling a title costs high pairs {cost:.2f} grades (S/R = {plain:.2f}); "
        f"without the order heads ({k}) S/R = {out:.2f}{than.en}.",
    )


def _case(study: Study) -> Text:
    """The grades the model gives the article's pair: straight, shuffled, heads out, random out."""
    claim, names = study.masks.claim, study.labels.names
    wanted = [([0], 0), ([0], 1)]
    if claim is not None:
        wanted.append((study.rows([claim.target]), 1))
        if claim.free:
            wanted.append((study.rows(claim.free), 1))
    values = [case_values(study, rows, text) for rows, text in wanted]
    if study.labels.logits > 1:
        said = [names[int(np.argmax(one))] for one in values]
    else:
        said = [f"{one[0]:.2f}" for one in values]
    shown = " → ".join(said[:3]) + (f"（随机头：{said[3]}）" if len(said) > 3 else "")
    english = " → ".join(said[:3]) + (f" (random heads: {said[3]})" if len(said) > 3 else "")
    return Text(
        f"文章的例子（4 → 2 → 3，随机头：2）在这里是 {shown}。",
        f"The article's case (4 → 2 → 3; random heads: 2) is {english} here.",
    )
