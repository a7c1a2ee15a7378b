"""What the articles claim of layers, as findings; the margin of all is 0.

The claims are of the model before fine-tuning; the same of the model itself stands beside them. In quick
a centre of gravity is that of the per-layer gains (`gravity.gains`), resampled over the queries or
sentences that are scored; under --full it is that of the scalar mix's weights, and the gains' stands
beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond, bootstrap_p
from qt_bert.probes.layers import words
from qt_bert.probes.layers.decode import Decoded
from qt_bert.probes.layers.estimates import at_layers, mix_entropy, mix_gravity
from qt_bert.probes.layers.lengths import Lengths
from qt_bert.probes.layers.property import (
    BOUNDARY,
    DEPENDENCY,
    GRADE,
    LENGTH,
    MATCHED,
    POS,
    POSITION,
    PROPERTIES,
)
from qt_bert.probes.layers.scores import Sums
from qt_bert.probes.layers.study import Model, Study
from qt_bert.probes.layers.text_tasks import OF_FIRST
from qt_bert.probes.naming import Estimate, mean_of
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.text import Label, Text

SURFACE = (POSITION.name, LENGTH.name)
SYNTAX = (BOUNDARY.name, POS.name, DEPENDENCY.name)
MEANING = (MATCHED.name, GRADE.name)
LATE = 4
"""The claim about position begins at r4, a third of the way up the source's model, against r2."""

Centres = Mapping[str, Estimate]
"""Centres of gravity by property."""


def findings(study: Study, context: Context) -> list[Finding]:
    """The claims, then what stands beside them."""
    ask = _Ask(context, len({pair.query for pair in study.pairs}))
    found: list[Finding] = []
    if study.base is not None:
        own = ask.mixes(study.base) if context.full else study.base.centres
        found += [*ask.levels(own, "", True), *ask.position(study.base, "", True)]
        if study.lengths is not None:
            found += ask.lengths(study.lengths)
        if context.full:
            found += [*ask.spread(study.base), *ask.levels(study.base.centres, "_gains", False)]
    after = ask.mixes(study.model) if context.full else study.model.centres
    found += [*ask.levels(after, "_model", False), *ask.position(study.model, "_model", False)]
    for suffix, model in (("", study.base), ("_model", study.model)):
        found += [] if model is None else ask.grade(model, suffix)
    return found


class _Ask:
    """The findings, with the resamples of one context."""

    def __init__(self, context: Context, queries: int) -> None:
        self.resamples, self.seed, self.queries = context.resamples, context.seed, queries

    def mixes(self, model: Model) -> Centres:
        """By the weights of the scalar mix."""
        return {
            name: mix_gravity(one, name, self.resamples, self.seed)
            for name, one in model.mixes.items()
        }

    def levels(self, found: Centres, suffix: str, primary: bool) -> Iterator[Finding]:
        """That the surface lies below syntax, and syntax below what relates the texts."""
        asked = (
            ("surface_below_syntax", SURFACE, SYNTAX, words.SURFACE_FIRST),
            ("syntax_below_semantics", SYNTAX, MEANING, words.SYNTAX_FIRST),
        )
        for id, low, high, conclusions in asked:
            lower, upper = ([n for n in names if _known(found, n)] for names in (low, high))
            if not lower or not upper:
                continue
            means = [mean_of([found[name] for name in names]) for names in (lower, upper)]
            below, above = (words.named([PROPERTIES[n] for n in names]) for names in (lower, upper))
            claim = Text(
                f"{below.zh}的重心低于{above.zh}",
                f"The centre of gravity of {below.en} lies below that of {above.en}",
            )
            yield self._finding(
                f"{id}{suffix}",
                _said(claim, suffix),
                words.LEVELS,
                means[1].less(means[0]),
                unit=words.LAYERS,
                primary=primary,
                conclusions=conclusions,
            )

    def spread(self, model: Model) -> Iterator[Finding]:
        """That what relates the texts is spread over more layers of the mix than words and syntax."""
        lower, upper = ([n for n in names if n in model.mixes] for names in (SYNTAX, MEANING))
        if not lower or not upper:
            return
        means = [
            mean_of([mix_entropy(model.mixes[n], n, self.resamples, self.seed) for n in names])
            for names in (lower, upper)
        ]
        few, many = (words.named([PROPERTIES[n] for n in names]) for names in (lower, upper))
        claim = Text(
            f"{many.zh}分散在更多的层，{few.zh}集中在少数层（混合权重的熵）",
            f"{many.en.capitalize()} are spread over more layers than {few.en} (entropy of the mix)",
        )
        yield self._finding(
            "semantics_spread",
            _said(claim, ""),
            words.LEVELS,
            means[1].less(means[0]),
            unit=words.NATS,
            conclusions=words.SPREAD,
        )

    def position(self, model: Model, suffix: str, primary: bool) -> Iterator[Finding]:
        """That position is read less well from r4 on than from r2."""
        if POSITION.name not in model.decoded:
            return
        sums = model.decoded[POSITION.name].own
        last = len(sums.score()) - 1
        late = min(LATE, math.ceil(last / 3))
        above = self._at(sums, range(late, last + 1))
        claim = Text(
            f"位置：r{late} 及以上各层平均，不如 r{late // 2} 读得准",
            f"Position is read less well from r{late} and above (mean) than from r{late // 2}",
        )
        yield self._finding(
            f"position_falls{suffix}",
            _said(claim, suffix),
            words.FALLS,
            above.less(self._at(sums, [late // 2])),
            unit=words.R2,
            below=True,
            primary=primary,
            conclusions=words.POSITION_FALLS,
        )

    def lengths(self, lengths: Lengths) -> Iterator[Finding]:
        """That models without pretraining tell the length better, over the layers' outputs."""
        asked = (
            (
                "length_untrained",
                lengths.untrained,
                Text(
                    f"各层平均，{len(lengths.untrained)} 个未经训练的随机模型比预训练模型更能读出长度",
                    f"Over all layers the length is read better from {len(lengths.untrained)} untrained "
                    "models with random weights than from the pretrained one",
                ),
            ),
            (
                "length_tuned_from_random",
                lengths.tuned,
                Text(
                    f"各层平均，{len(lengths.tuned)} 个随机初始化后直接微调的模型比预训练模型更能读出长度",
                    f"Over all layers the length is read better from {len(lengths.tuned)} models "
                    "fine-tuned from random weights than from the pretrained one",
                ),
            ),
        )
        for id, models, claim in asked:
            if not models:
                continue
            yield self._finding(
                id,
                claim,
                words.WITHOUT,
                lengths.ahead(models, id, self.resamples, self.seed),
                unit=words.R2,
                conclusions=words.UNTRAINED_KNOWS,
                n=len(np.unique(lengths.task.check.places.group)),
            )

    def grade(self, model: Model, suffix: str) -> Iterator[Finding]:
        """How well the grade itself can be read from the last layer: from the mean, and from [CLS]."""
        asked = (("", "的平均向量", "the mean of"), (OF_FIRST, "的 [CLS]", "[CLS] in"))
        for of, zh, en in asked:
            one: Decoded | None = model.decoded.get(f"{GRADE.name}{of}")
            if one is None:
                continue
            last = len(one.score) - 1
            claim = Text(
                f"相关性档位能从 r{last} {zh}读出", f"The grade can be read from {en} r{last}"
            )
            yield self._finding(
                f"grade_read{of}{suffix}",
                _said(claim, suffix),
                Source(article=words.LEVELS.article, section=words.LEVELS.section),
                self._at(one.own, [last]),
                unit=words.R2,
                primary=False,
            )

    def _at(self, sums: Sums, layers: Sequence[int]) -> Estimate:
        return at_layers(sums, layers, self.resamples, self.seed)

    def _finding(
        self,
        id: str,
        claim: Text,
        source: Source,
        found: Estimate,
        *,
        unit: Label,
        below: bool = False,
        primary: bool = True,
        conclusions: Mapping[Verdict, Text] | None = None,
        n: int | None = None,
    ) -> Finding:
        queries = self.queries if n is None else n
        return beyond(
            id,
            claim,
            source,
            found.value,
            found.samples,
            p=bootstrap_p(found.samples, 0.0, queries),
            n_queries=queries,
            side="below" if below else "above",
            unit=unit,
            primary=primary,
            conclusions=conclusions,
        )


def _known(found: Centres, name: str) -> bool:
    return name in found and math.isfinite(found[name].value)


def _said(claim: Text, suffix: str) -> Text:
    """Of which model, where it is not the one before fine-tuning; and by what, where it is not the mix."""
    if suffix == "_gains":
        return Text(f"按逐层增益：{claim.zh}", f"By the per-layer gains: {claim.en}")
    which = words.TUNED if suffix else words.PRETRAINED
    return Text(f"{which.zh}：{claim.zh}", f"{which.en.capitalize()}: {claim.en}")
