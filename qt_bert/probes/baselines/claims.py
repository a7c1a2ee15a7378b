"""What the article claims of other ways to do the task, as findings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from qt_bert.probes.baselines.head_claims import of_the_pair_objective
from qt_bert.probes.baselines.table import Table
from qt_bert.probes.baselines.words import NAMES, RHO_UNIT, conclusions, source
from qt_bert.probes.claims import beyond, no_effect
from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LSTM,
    LSTM_WORDS,
    TWO_TOWER,
    WORDS,
)
from qt_bert.results.probe import Finding, Verdict
from qt_bert.stats.multiplicity import NO_EFFECT_SPEARMAN
from qt_bert.text import Text

Side = Literal["above", "below"]


def findings(table: Table) -> list[Finding]:
    """The claims, then what stands beside them; all on validation."""
    return [*_of_architectures(table), *_of_words(table), *of_the_pair_objective(table)]


def _of_architectures(table: Table) -> list[Finding]:
    lstm, other = table.lstm, LSTM if table.lstm == LSTM_WORDS else LSTM_WORDS
    better = Text("结果比 LSTM-Attention 交互式匹配模型要好", "better than the interactive LSTM")
    apart = Text("双塔表现很差", "two towers do badly")
    joined = Text("Bert+LSTM 差于只使用 Bert", "BERT + LSTM is worse than BERT alone")
    return [
        _difference(
            table,
            "over_lstm",
            CROSS_ENCODER,
            lstm,
            Text(
                f"拼接 BERT 的 ρ 高于 LSTM-Attention（发现集上较好的一个：{NAMES[lstm].zh}）",
                f"The cross-encoder's ρ lies above LSTM-attention's (the better on discovery: "
                f"{NAMES[lstm].en})",
            ),
            ("一", better),
            (
                Text("拼在一起读的 BERT 更好。", "A BERT that reads both together is better."),
                Text("BERT 并不更好。", "The BERT is no better."),
            ),
        ),
        _difference(
            table,
            "over_two_tower",
            CROSS_ENCODER,
            TWO_TOWER,
            Text("拼接 BERT 的 ρ 高于双塔 BERT", "The cross-encoder's ρ lies above two towers'"),
            ("2.4", apart),
            (
                Text("两段文字要一起读。", "The texts have to be read together."),
                Text("分开读也一样好。", "Reading them apart is as good."),
            ),
        ),
        _difference(
            table,
            "bert_lstm_below",
            BERT_LSTM,
            CROSS_ENCODER,
            Text(
                "双塔 BERT + LSTM 的 ρ 低于拼接 BERT",
                "Two-tower BERT + LSTM has a lower ρ than the cross-encoder",
            ),
            ("2.4", joined),
            (
                Text("加上 LSTM 也补不回分开读的损失。", "The LSTM does not make up for it."),
                Text("加上 LSTM 后并不更差。", "With the LSTM it is no worse."),
            ),
            side="below",
        ),
        _difference(
            table,
            "over_other_lstm",
            CROSS_ENCODER,
            other,
            Text(
                f"拼接 BERT 的 ρ 减去另一个 LSTM（{NAMES[other].zh}）",
                f"The cross-encoder's ρ less the other LSTM's ({NAMES[other].en})",
            ),
            ("一", better),
            primary=False,
        ),
        _difference(
            table,
            "short_over_lstm",
            CHARACTERS,
            lstm,
            Text(
                "只短暂预训练过的拼接 BERT 的 ρ 减去同一个 LSTM",
                "ρ of the cross-encoder with a short pretraining less that of the same LSTM",
            ),
            ("一", better),
            primary=False,
        ),
    ]


def _of_words(table: Table) -> list[Finding]:
    same, said = table.difference(WORDS, CHARACTERS), Text("差不多", "about the same")
    harder = Text("字粒度很难达到词粒度的效果", "characters hardly reach words")
    return [
        no_effect(
            "baselines.words_of_bert",
            Text(
                f"BERT 按词切分与按字切分，ρ 相差不到 {NO_EFFECT_SPEARMAN}",
                f"For BERT, words and characters differ in ρ by less than {NO_EFFECT_SPEARMAN}",
            ),
            source("2.2", said),
            same.difference,
            _ends(same.ci_low, same.ci_high),
            n_queries=same.n_queries,
            margin=NO_EFFECT_SPEARMAN,
            unit=RHO_UNIT,
            conclusions=conclusions(
                Text("BERT 用字就够了。", "Characters are enough for BERT."),
                Text("对 BERT 来说，字与词并不一样。", "For BERT the two are not the same."),
            ),
        ),
        _difference(
            table,
            "words_of_lstm",
            LSTM_WORDS,
            LSTM,
            Text(
                "LSTM 按词切分，ρ 高于按字切分",
                "For the LSTM, words give a higher ρ than characters",
            ),
            ("2.2", harder),
            (
                Text("LSTM 需要现成的词。", "The LSTM needs words ready made."),
                Text("LSTM 按词并不更好。", "Words are no better for the LSTM."),
            ),
        ),
    ]


def _difference(
    table: Table,
    id: str,
    name: str,
    than: str,
    claim: Text,
    said: tuple[str, Text],
    concluded: tuple[Text, Text] | None = None,
    *,
    side: Side = "above",
    primary: bool = True,
) -> Finding:
    """ρ of one model less that of another."""
    found = table.difference(name, than)
    return beyond(
        f"baselines.{id}",
        claim,
        source(*said),
        found.difference,
        _ends(found.ci_low, found.ci_high),
        p=found.p,
        n_queries=found.n_queries,
        side=side,
        unit=RHO_UNIT,
        primary=primary,
        conclusions=_concluded(concluded),
    )


def _concluded(both: tuple[Text, Text] | None) -> Mapping[Verdict, Text] | None:
    return None if both is None else conclusions(*both)


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
