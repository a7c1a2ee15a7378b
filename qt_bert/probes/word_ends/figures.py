"""The pictures of the study of word boundaries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qt_bert.evaluation.arrays import BoolArray, FloatArray
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.base import resting_on, sample
from qt_bert.probes.common.maps import head_map, known
from qt_bert.probes.word_ends.claims import majority
from qt_bert.probes.word_ends.judge import Judged
from qt_bert.probes.word_ends.readers import balanced_of
from qt_bert.probes.word_ends.references import GOLD
from qt_bert.probes.word_ends.study import Study
from qt_bert.probes.word_ends.together import by_character, vote
from qt_bert.probes.word_ends.weights import Float32Array
from qt_bert.probes.word_ends.words import (
    ACCURACY,
    BALANCED,
    FEATURE_NAMES,
    GRANULARITIES,
    MODELS,
    WORD_F1,
)
from qt_bert.results import Bars, Curve, Figure, HeatMap, Text, Tokens
from qt_bert.results.figures import BarSeries, Point, Series, Token, TokenLine
from qt_bert.results.text import counted

SHARE = Text("比例", "share")
TEXTS = 3
SHORTEST, LONGEST = 5, 14


def figures(study: Study, prefix: str = "boundary") -> tuple[Figure, ...]:
    """Heads on a map, the union by k, one head beside other answers, three models, three texts."""
    decided: list[Figure] = [_map(study, prefix), _union(study, prefix), _answers(study, prefix)]
    decided += [_models(study, prefix)]
    drawn = list(resting_on(_decisions(study), decided))
    if len(study.graded.granularity) > 1:
        drawn.append(_granularity(study, prefix))
    return (*drawn, *_texts(study, prefix))


def _decisions(study: Study) -> Text:
    asked = study.texts.validation
    of = sample(len(asked.pairs), asked.n_queries)
    return Text(
        f"{len(asked):,} 处要不要断词，{of.zh}",
        f"{counted(len(asked), 'decision')} in {of.en}",
    )


def _map(study: Study, prefix: str) -> HeatMap:
    readers = study.graded
    values = balanced_of(readers.said, study.truth)
    return head_map(
        f"{prefix}_heads",
        Text("每个头判断词边界的平衡准确率", "Balanced accuracy of each head on word ends"),
        BALANCED,
        values,
        marked=readers.calibrated.named.heads(),
        low=0.5,
        note=Text(
            "粗框：在发现集上被命名的头；数值为验证集上的",
            "Outlined: named on discovery; the figures are those of validation",
        ),
    )


def _union(study: Study, prefix: str) -> Curve:
    union = study.union
    lines: Mapping[str, tuple[Text, FloatArray, bool]] = {
        "share": (Text("有一个头正确 U(k)", "one head is right U(k)"), union.share, False),
        "chance": (Text("碰巧 U₀(k)", "by luck U₀(k)"), union.chance, True),
        "worth": (Text("(U − U₀)/(1 − U₀)", "(U − U₀) / (1 − U₀)"), union.worth, False),
        "random": (
            Text("随机的 k 个头 U(k)", "k random heads U(k)"),
            np.array(study.random_union),
            True,
        ),
    }
    return Curve(
        name=f"{prefix}_union",
        title=Text("前 k 个头中有一个判断正确", "One of the first k heads is right"),
        x_label=Text("头数 k", "heads k"),
        y_label=SHARE,
        unit=SHARE,
        series=tuple(_series(*line) for line in lines.values()),
        note=Text(
            f"头按发现集上的准确率排序；k = {study.k} 处发现集上 U − U₀ 最大",
            f"Heads in order of their accuracy on discovery; U − U₀ is largest there at k = {study.k}",
        ),
    )


def _series(name: Text, values: FloatArray, dashed: bool) -> Series:
    points = tuple(
        Point(x=float(k), y=float(y)) for k, y in enumerate(values) if k and np.isfinite(y)
    )
    return Series(name=name, points=points, dashed=dashed)


def answers(study: Study) -> dict[str, tuple[Text, Judged]]:
    """One head by both rules, several heads, and answers that need no model."""
    readers, texts = study.graded, study.texts
    known = texts.known[study.reference]
    table = by_character(texts.discovery.characters(), known, texts.validation.characters())
    said: dict[str, tuple[Text, BoolArray]] = {
        "article_rule": (
            Text("文章的规则", "article's rule"),
            readers.by_rule[readers.best_by_rule],
        ),
        "best_head": (Text("最好的头", "best head"), readers.said[readers.best]),
        "vote": (
            Text(f"{len(readers.voters)} 个头投票", f"vote of {len(readers.voters)}"),
            vote(readers.said, readers.voters),
        ),
        "all_heads": (Text("全部头线性组合", "all heads, linear"), readers.combined),
        "characters": (Text("每个字的词尾率", "each character's rate"), table),
        "majority": (Text("总猜多数", "majority"), majority(study)),
    }
    return {name: (words, study.judged(one)) for name, (words, one) in said.items()}


def _answers(study: Study, prefix: str) -> Bars:
    found = answers(study).values()
    return _bars(
        f"{prefix}_answers",
        Text("一个头、几个头、没有模型", "One head, several heads, no model"),
        [words for words, _ in found],
        [judged for _, judged in found],
    )


def _models(study: Study, prefix: str) -> Bars:
    return _bars(
        f"{prefix}_models",
        Text("各模型最好的头", "The best head of each model"),
        [MODELS[name] for name in study.models],
        [study.best(name) for name in study.models],
    )


def _bars(name: str, title: Text, categories: list[Text], judged: list[Judged]) -> Bars:
    measures = {"accuracy": ACCURACY, "balanced": BALANCED, "word_f1": WORD_F1}
    return Bars(
        name=name,
        title=title,
        x_label=Text("判断者", "who decides"),
        y_label=SHARE,
        unit=SHARE,
        categories=tuple(categories),
        series=tuple(
            BarSeries(
                name=words,
                values=tuple(known(one.value(measure)) for one in judged),
                intervals=tuple(percentile_interval(one.samples(measure)) for one in judged),
            )
            for measure, words in measures.items()
        ),
    )


def preferred(study: Study) -> dict[str, tuple[str, str]]:
    """Named head → the granularity it is best at, on discovery and on validation; none of one alone."""
    found, names = study.graded.granularity, tuple(study.graded.granularity)
    if len(names) < 2:
        return {}
    best = [
        np.argmax(np.stack([np.nan_to_num(getattr(found[name], half)) for name in names]), axis=0)
        for half in ("discovery", "validation")
    ]
    heads = study.graded.calibrated.named.heads()
    return {str(head): (names[best[0][head]], names[best[1][head]]) for head in heads}


def _granularity(study: Study, prefix: str) -> Bars:
    chosen = list(preferred(study).values())
    return Bars(
        name=f"{prefix}_granularity",
        title=Text("被命名的头最合哪种粒度", "Which granularity the named heads fit best"),
        x_label=Text("粒度", "granularity"),
        y_label=Text("头数", "heads"),
        unit=Text("个头", "heads"),
        categories=tuple(GRANULARITIES[name] for name in study.graded.granularity),
        series=tuple(
            BarSeries(
                name=words,
                values=tuple(
                    float(sum(one[half] == name for one in chosen))
                    for name in study.graded.granularity
                ),
            )
            for half, words in enumerate(
                (Text("发现集", "discovery"), Text("验证集", "validation"))
            )
        ),
        digits=0,
    )


def _texts(study: Study, prefix: str) -> tuple[Tokens, ...]:
    """Three texts, cut by the reference and by the best head."""
    decisions, readers = study.texts.validation, study.graded
    by_reference = Text("人工", "people")
    if study.reference != GOLD:
        by_reference = Text(f"分词器 {study.segmenter}", f"segmenter {study.segmenter}")
    lines = []
    for number in _shown(study):
        first = decisions.text_starts[number]
        here = slice(first, first + decisions.text_sizes[number])
        text = decisions.asked[number].text
        lines.append(_line(by_reference, text, study.truth[here]))
        said = readers.said[readers.best][here]
        lines.append(_line(str(readers.best), text, said, readers.margin[here]))
    if not lines:
        return ()
    read_by = FEATURE_NAMES[readers.calibrated.feature(readers.best)]
    condition = readers.calibrated.condition(readers.best)
    return (
        Tokens(
            name=f"{prefix}_texts",
            title=Text("一个头给出的切分", "The segmentation that one head gives"),
            unit=Text(f"{read_by.zh}，超出阈值的量", f"{read_by.en}, beyond the threshold"),
            lines=tuple(lines),
            scale="diverging",
            note=Text(
                f"{read_by.zh} {condition} 时读作词尾；正值：在此切开，负值：不切",
                f"A word ends where the {read_by.en} is {condition}: above 0 it cuts, below 0 not",
            ),
        ),
    )


def _shown(study: Study) -> list[int]:
    """Texts of which every two neighbours are a decision, some at random."""
    decisions = study.texts.validation
    whole = [
        number
        for number, one in enumerate(decisions.asked)
        if SHORTEST <= len(one.text) <= LONGEST
        and decisions.text_sizes[number] == len(one.text) - 1
    ]
    return [int(one) for one in np.random.default_rng(study.seed).permutation(whole)[:TEXTS]]


def _line(
    name: Text | str, text: str, ends: BoolArray, values: Float32Array | None = None
) -> TokenLine:
    tokens = []
    for place, character in enumerate(text):
        inside = place < len(ends)
        value = float(values[place]) if values is not None and inside else None
        tokens.append(Token(text=character, value=value, ends_word=not inside or bool(ends[place])))
    return TokenLine(name=name, tokens=tuple(tokens))
