"""What the claims, their sources and their units are called."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.probes.patterns.kinds import KIND_NAMES, WHOLE
from qt_bert.results.probe import Verdict
from qt_bert.text import Text

ARTICLE = "dark_secrets_of_bert"
TYPES = "What types of self-attention patterns are learned"
TUNED = "What happens in fine-tuning?"

SHARE = Text("%（图的份额）", "% of the maps")
OTHER_KINDS = Text("%（图的份额，混杂以外四类合计）", "% of the maps, all but heterogeneous")
POINTS = Text("个百分点（图的份额）", "points of the maps' share")
CORRECTED = Text("按分类器的错误校正后", "Corrected for the classifier's errors")
SECOND_PASS = Text(
    "按第二遍标注拟合的规则，并按其错误校正",
    "By rules fitted on the second pass, corrected for errors",
)
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
        "竖线图不到三分之一：在这个模型里，只看固定几个词元的图没有文献里那么多。",
        "Fewer than a third are vertical: maps that just look at the same few tokens are rarer in "
        "this model than in the literature.",
    ),
}
HALF_CONCLUSIONS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "按这个分类器，混杂图不到一半：多数图有简单的样子。区间不含分类器的错误，参看校正后的数。",
        "By this classifier under half are heterogeneous: most maps have a simple pattern. The "
        "interval leaves out the classifier's errors: see the figure corrected for them.",
    ),
    "not reproduced": Text(
        "按这个分类器，混杂图占一半以上：这些图没有简单的样子，可能承载词之间的关系。区间不含分类器的错误；"
        "竖线、块与混杂的界线画在哪里会改变这个数，参看校正后的数和按第二遍标注的数。",
        "By this classifier half or more are heterogeneous: such maps have no simple pattern and may "
        "hold relations between tokens. The interval leaves out the classifier's errors, and where "
        "vertical and block end moves this figure: see it corrected, and by the second pass.",
    ),
}
