"""What the claims, their sources and their units are called."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.probes.map_patterns.kinds import KIND_NAMES, WHOLE
from qt_bert.results import Text
from qt_bert.results.probe import Verdict

ARTICLE = "dark_secrets_of_bert"
TYPES = "What types of self-attention patterns are learned"
TUNED = "What happens in fine-tuning?"

SHARE = Text("%（图的份额）", "% of the maps")
POINTS = Text("个百分点（图的份额）", "points of the maps' share")
BEFORE, AFTER = Text("微调前", "before fine-tuning"), Text("微调后", "after fine-tuning")
MODEL = Text("这个模型", "this model")
LAYER, KIND = Text("层", "layer"), Text("类型", "kind")

SEEN_NAMES: Mapping[str, Text] = {
    **KIND_NAMES,
    WHOLE: Text("块：看全文", "block: whole"),
}
LETTERS: Mapping[str, str] = {
    "vertical": "V",
    "diagonal": "D",
    "both": "VD",
    "block": "B",
    "heterogeneous": "H",
}

RISE_CONCLUSIONS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "微调使更多的图变成竖线图。", "Fine-tuning turned more of the maps into vertical ones."
    ),
    "not reproduced": Text(
        "微调没有使竖线图变多。", "Fine-tuning did not make vertical maps more common."
    ),
}
THIRD_CONCLUSIONS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "至少三分之一的图只是看着固定的几个词元。",
        "At least a third of the maps just look at the same few tokens.",
    ),
    "not reproduced": Text(
        "竖线图不到三分之一：文献里 [CLS]、[SEP] 那样的竖线在这个模型里少得多。",
        "Fewer than a third are vertical: the stripes on [CLS] and [SEP] of the literature are much "
        "rarer in this model.",
    ),
}
HALF_CONCLUSIONS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "混杂图不到一半：多数图有简单的样子。",
        "Under half are heterogeneous: most maps have a simple pattern.",
    ),
    "not reproduced": Text(
        "混杂图占一半以上：多数图没有简单的样子，可能承载词之间的关系。竖线与混杂的界线画在哪里会改变"
        "这个数，参看校正后的数。",
        "Half or more are heterogeneous: most maps have no simple pattern and may hold relations "
        "between tokens. Where the line between vertical and heterogeneous is drawn moves this "
        "figure: see the corrected one.",
    ),
}
