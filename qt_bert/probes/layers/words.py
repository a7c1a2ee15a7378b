"""The claims about layers in words, and what a reader may conclude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qt_bert.probes.layers.property import Property
from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

_ARTICLE = "what_bert_and_transformer_learn"
LEVELS = Source(article=_ARTICLE, section="第二部分：探寻方法", value="> 0")
FALLS = Source(article=_ARTICLE, section="第二部分：探寻方法", value="< 0")
WITHOUT = Source(
    article=_ARTICLE, section="第三部分：BERT 的预训练比无预训练过程多学了什么？", value="> 0"
)

LAYERS = Text("层", "layers")
R2 = Text("R²", "R²")
NATS = Text("奈特", "nats")
SCORE = Text("准确率或 R²", "accuracy or R²")

PRETRAINED = Text("微调前", "before fine-tuning")
TUNED = Text("被测模型", "the model")


def named(properties: Sequence[Property]) -> Text:
    """`position and length`."""
    zh = "、".join(one.title.zh for one in properties)
    *first, last = (one.title.en for one in properties)
    return Text(zh, f"{', '.join(first)} and {last}" if first else last)


def unread(properties: Sequence[Property]) -> Text:
    """Which have no centre of gravity, and why."""
    them = named(properties)
    return Text(
        f"各层都不比猜测（总答最常见的类或平均数）读得准，因而没有重心：{them.zh}。",
        f"Read from no layer visibly better than by a probe that knows nothing, so without a centre: {them.en}.",
    )


_UNSURE = Text(
    "这份样本看不出先后；区间半宽以下的差别无法判断。",
    "This sample does not show which comes first; differences under half the interval cannot be seen.",
)

SURFACE_FIRST: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "表层的信息在嵌入里就读得出，词和句法的信息要再过几层。",
        "Surface features can be read from the embeddings on; words and syntax take some layers more.",
    ),
    "not reproduced": Text(
        "这个模型里，词和句法的信息并不比表层的信息来得晚。",
        "In this model words and syntax come no later than surface features.",
    ),
    "inconclusive": _UNSURE,
}
SYNTAX_FIRST: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "词和句法的信息先读得出，两段文本之间的关系在更高的层。",
        "Words and syntax can be read first; how the two texts relate, in higher layers.",
    ),
    "not reproduced": Text(
        "这个模型里，两段文本之间的关系并不比词和句法的信息来得晚。",
        "In this model how the two texts relate comes no later than words and syntax.",
    ),
    "inconclusive": _UNSURE,
}
SPREAD: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "词和句法的信息集中在少数层，两段文本之间的关系分散在各层。",
        "Words and syntax sit in few layers, how the two texts relate is spread over many.",
    ),
    "not reproduced": Text(
        "这个模型里，两段文本之间的关系并不比词和句法的信息更分散。",
        "In this model how the two texts relate is no more spread out than words and syntax.",
    ),
    "inconclusive": _UNSURE,
}
POSITION_FALLS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "位置越往高层越难读出；难了多少看数值，难读不等于消失。",
        "Position is harder to read further up: by how much, the value says; harder is not gone.",
    ),
    "not reproduced": Text(
        "往高层去，位置同样读得出。", "Position can be read as well further up."
    ),
    "inconclusive": _UNSURE,
}
UNTRAINED_KNOWS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "不经预训练的模型更清楚地保留长度；拟合文本越少，差距越大。",
        "Without pretraining a model keeps the length more plainly: by the more, the fewer texts are fitted.",
    ),
    "not reproduced": Text(
        "不经预训练的模型并不更清楚地保留长度。",
        "Without pretraining a model does not keep the length more plainly.",
    ),
    "inconclusive": _UNSURE,
}

NO_BASE = Text(
    "没有给出微调前的模型（--base），所以各项论断未检验，只列出被测模型的读数。",
    "No model before fine-tuning was given (--base), so no claim is tested; what stands here is of the "
    "model itself.",
)
NO_TREEBANK = Text(
    "没有给出树库（--treebank），所以没有依存关系和人工词性。",
    "No treebank was given (--treebank): no dependency, and no parts of speech by people.",
)
NO_TEXTS = Text(
    "没有更多文本（--texts），探针只用发现集拟合。",
    "There were no further texts (--texts): probes are fitted on discovery alone.",
)
NO_TUNED = Text(
    "没有随机初始化后微调的权重（--initialisations），所以长度只与未训练的模型比较。",
    "There are no weights fine-tuned from random ones (--initialisations), so the length is compared "
    "with untrained models alone.",
)
FEW = Text(
    "快速档只取样本：长度和语序用 {} 对拼接文本拟合（完整档 5,000 对）。",
    "Quick takes a sample: {} recombined pairs to fit length and order (5,000 under --full).",
)
