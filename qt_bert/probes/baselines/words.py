"""What a reader of the table sees: names of models, claims, conclusions."""

from __future__ import annotations

from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LEXICAL,
    LSTM,
    LSTM_WORDS,
    NO_PAIRS,
    RANDOM,
    TWO_TOWER,
    WORDS,
)
from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

ARTICLE = "heads_of_query_title_bert"

NAMES = {
    CROSS_ENCODER: Text("拼接 BERT", "cross-encoder BERT"),
    CHARACTERS: Text("拼接 BERT，字，短预训练", "cross-encoder, characters, short"),
    WORDS: Text("拼接 BERT，词，短预训练", "cross-encoder, words, short"),
    NO_PAIRS: Text("拼接 BERT，字，无句对任务", "cross-encoder, no pair objective"),
    LSTM: Text("LSTM-Attention，字", "LSTM-attention, characters"),
    LSTM_WORDS: Text("LSTM-Attention，词", "LSTM-attention, words"),
    TWO_TOWER: Text("双塔 BERT", "two-tower BERT"),
    BERT_LSTM: Text("双塔 BERT + LSTM", "two-tower BERT + LSTM"),
    LEXICAL: Text("字面重合", "lexical overlap"),
}
"""The rows of the table."""

STARTS = {
    CHARACTERS: Text("字", "characters"),
    WORDS: Text("词", "words"),
    NO_PAIRS: Text("字，无句对任务", "characters, no pair objective"),
    RANDOM: Text("随机权重", "random weights"),
}
"""The models before they are tuned."""

RHO_UNIT = "ρ"
AUC_UNIT = "AUC"
LOG_UNIT = Text("对数倍", "log ratio")

NOTHING = Text(
    "没有给出基线表（--baseline-table；用 experiments/baselines 制作），所以这一节没有数字。",
    "No table of baselines was given (--baseline-table; experiments/baselines makes one), so this "
    "section has no figures.",
)


def source(section: str, said: Text) -> Source:
    """A place in the article, and what it says there."""
    return Source(article=ARTICLE, section=section, value=said)


def conclusions(yes: Text, no: Text) -> dict[Verdict, Text]:
    """What may be concluded where a claim is borne out, and where it is not."""
    open_question = Text("这些样本不足以下结论。", "These samples do not decide it.")
    return {"reproduced": yes, "not reproduced": no, "inconclusive": open_question}
