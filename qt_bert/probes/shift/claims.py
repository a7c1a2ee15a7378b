"""What is claimed of fine-tuning, as findings in hundredths of a token's attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.controls import rank_p
from qt_bert.probes.naming import Average, average, means
from qt_bert.probes.shift.likeness_claims import beyond_second_seed, last_layers
from qt_bert.probes.shift.set_back_report import set_back_findings
from qt_bert.probes.shift.starts_report import start_findings
from qt_bert.probes.shift.study import Study
from qt_bert.probes.shift.words import (
    CHANGE,
    OF_ALL_HEADS,
    OF_MATCHING_HEADS,
    PERCENT,
    Said,
    matched_conclusions,
)
from qt_bert.results.probe import Finding
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

_MATCHED = OF_MATCHING_HEADS[0]
_BEFORE = ("matching_before",)


def findings(study: Study, context: Context) -> list[Finding]:
    """The claims, then what stands beside them; all on validation."""
    every = study.shape.all_heads
    return [
        *(
            _stated(
                f"matching_{said.weight}", said, study.on_base.heads, study, context, sets=_BEFORE
            )
            for said in (_with_each_head(study), *OF_MATCHING_HEADS[1:])
        ),
        *(_stated(f"all_{said.weight}", said, every, study, context) for said in OF_ALL_HEADS),
        *_biased(study, context),
        *_beyond_other_heads(study, context),
        *_strengthened(study, context),
        *last_layers(study, context),
        *set_back_findings(study.set_back),
        *(() if study.starts is None else start_findings(study.starts)),
        *beyond_second_seed(study, context),
    ]


def of_heads(per_query: FloatArray, heads: Sequence[Head]) -> FloatArray:
    """The mean over `heads` of [queries, layers, heads]: [queries]; NaN without heads."""
    if not heads:
        return np.full(len(per_query), np.nan)
    return np.asarray(np.mean([per_query[:, head.layer, head.head] for head in heads], axis=0))


def _with_each_head(study: Study) -> Said:
    """The claim about matched terms, whose conclusions say in which of the heads they rose."""
    rise, heads = means(study.validation.change("matched")), study.on_base.heads
    rose = [str(head) for head in heads if rise[head] > 0]
    return replace(_MATCHED, conclusions=matched_conclusions(rose, len(heads)))


def _change(study: Study, weight: str, heads: Sequence[Head]) -> FloatArray:
    return of_heads(study.validation.change(weight), heads) / PERCENT


def _stated(
    id: str,
    said: Said,
    heads: Sequence[Head],
    study: Study,
    context: Context,
    *,
    sets: tuple[str, ...] = (),
) -> Finding:
    found = average(_change(study, said.weight, heads), context.resamples, context.seed)
    p = found.p_above if said.side == "above" else found.p_below
    return _finding(id, said, found, p=p, sets=sets)


def _finding(
    id: str,
    said: Said,
    found: Average,
    *,
    p: float | None,
    primary: bool = True,
    sets: tuple[str, ...],
) -> Finding:
    return beyond(
        id,
        said.claim,
        said.source,
        found.value,
        found.samples,
        p=p,
        n_queries=found.n_queries,
        side=said.side,
        unit=CHANGE,
        primary=primary,
        conclusions=said.conclusions,
        sets=sets,
    )


def _biased(study: Study, context: Context) -> Iterator[Finding]:
    """The same of the heads that match best after fine-tuning: what picking by the result shows."""
    for said in OF_MATCHING_HEADS:
        claim = Text(
            f"有偏的对照：在按微调后的模型挑出的头里，{said.change.zh}",
            f"Biased: in heads picked after fine-tuning, {said.change.en}",
        )
        found = _stated(
            f"picked_after_{said.weight}",
            replace(said, claim=claim),
            study.on_model.heads,
            study,
            context,
            sets=("matching_after_biased",),
        )
        yield replace(found, primary=False)


def _beyond_other_heads(study: Study, context: Context) -> Iterator[Finding]:
    """The rise on matched terms less that of as many other heads of the same layers."""
    if not study.controls:
        return
    rise = study.validation.change("matched") / PERCENT
    target = of_heads(rise, study.on_base.heads)
    controls = np.stack([of_heads(rise, heads) for heads in study.controls], axis=1)
    found = average(target - controls.mean(axis=1), context.resamples, context.seed)
    p = rank_p(float(means(target)), means(controls), below=False)
    claim = Text(
        "微调前就匹配词的头，给相同的词的注意力比同层的其他头增加得多",
        "Heads that match terms before fine-tuning gain more attention to matched terms than other "
        "heads of their layers",
    )
    yield _finding(
        "matching_beyond_other_heads",
        replace(_MATCHED, claim=claim, source=replace(_MATCHED.source, value=None)),
        found,
        p=p,
        primary=False,
        sets=_BEFORE,
    )


def _strengthened(study: Study, context: Context) -> Iterator[Finding]:
    """Heads named on discovery as strengthened, on validation."""
    heads = study.strengthened.heads()
    if not heads:
        return
    claim = Text(
        f"发现集上匹配被微调加强的头（{len(heads)} 个），在验证集上也是如此",
        f"The heads whose matching fine-tuning strengthened on discovery ({len(heads)}) show it on "
        "validation",
    )
    said = replace(_MATCHED, claim=claim)
    found = _stated("strengthened", said, heads, study, context, sets=("strengthened",))
    yield replace(found, primary=False)
