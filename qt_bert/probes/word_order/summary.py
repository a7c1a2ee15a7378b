"""The study of word order in one line."""

from __future__ import annotations

import numpy as np

from qt_bert.probes.word_order.changes import against
from qt_bert.probes.word_order.figures import case_values
from qt_bert.probes.word_order.study import Study
from qt_bert.probes.word_order.training import Trained
from qt_bert.results import Text

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
    named = len(study.discovery.named().heads())
    ratio, case = _ratio(study), _case(study)
    told = _TRAINED[trained]
    return Text(
        f"{len(study.shape.all_heads)} 个头中有 {named} 个只凭位置注意邻字（倍数 ≥ 2）。"
        f"{ratio.zh}{case.zh}{told.zh}",
        f"Of {len(study.shape.all_heads)} heads, {named} attend to a neighbour by place alone "
        f"(lift ≥ 2). {ratio.en} {case.en} {told.en}",
    )


def _ratio(study: Study) -> Text:
    claim, found = study.masks.claim, study.sensitivity
    plain, cost = (float(found.values(name, [0])[0]) for name in ("ratio", "sensitivity"))
    if claim is None:
        return Text("没有可去掉的语序头。", "There are no order heads to leave out.")
    out = float(found.values("ratio", study.rows([claim.target]))[0])
    if not (np.isfinite(plain) and np.isfinite(out)):
        return Text(
            "模型在这些标题对上分不开高档与低档，S/R 没有定义。",
            "The model does not part high from low grades here, so S/R is not defined.",
        )
    beyond = against(study, "ratio", claim, "matched", below=True)
    p = "—" if beyond.p is None else f"{beyond.p:.2g}"
    k = len(study.order_heads)
    return Text(
        f"打乱标题的字使高档对的期望档位下降 {cost:.2f}（S/R = {plain:.2f}）；去掉 {k} 个语序头后 "
        f"S/R = {out:.2f}，与同层随机头之差 {beyond.value:+.2f}（p = {p}）。",
        f"Shuffling a title costs high pairs {cost:.2f} grades (S/R = {plain:.2f}); without the {k} "
        f"order heads S/R = {out:.2f}, {beyond.value:+.2f} against random heads of the same layers "
        f"(p = {p}).",
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
