"""What fine-tuning adds on nouns, objects and negation, beside what [CLS] and [SEP] hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.claims import beyond
from qt_bert.probes.common.averages import average
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.linguistic import words
from qt_bert.probes.linguistic.kinds import TUNED
from qt_bert.probes.linguistic.measures import gained, gaining, over_heads, summed
from qt_bert.probes.linguistic.stated import beside, stated
from qt_bert.probes.linguistic.study import Part, Study
from qt_bert.results import Finding, Text

TENTH = 0.1


@dataclass(frozen=True)
class _Said:
    """What differs in words between pairs and a treebank."""

    where: Text
    kinds: Text


_SAID = {
    "pairs": _Said(Text("", "On pairs, "), Text("名词和否定词", "nouns and negation")),
    "treebank": _Said(
        Text("树库的句子里，", "In the treebank's sentences, "),
        Text("名词、宾语和否定词", "nouns, objects and negation"),
    ),
}


def added(name: str, part: Part, study: Study, context: ProbeContext) -> Iterator[Finding]:
    """The claim, by heads that gained on discovery; what it is of the rest; the change in all heads.

    Heads that lost are left out, so that what one gains another's loss does not hide.
    """
    seen = part.validation
    if not (seen.has(TUNED) and part.discovery.has(TUNED)):
        return
    gain = gained(seen, TUNED, gaining(part.discovery, TUNED, study.shape))
    held = over_heads(summed(seen, ("cls", "sep")))
    where, kinds = _SAID[name].where, _SAID[name].kinds
    claim = Text(
        f"{where.zh}微调给{kinds.zh}增加的注意力（只算发现集上增加的头），不到 [CLS] 和 [SEP] 所占的十分之一",
        f"{where.en}what fine-tuning adds on {kinds.en}, in the heads that gained on discovery, is "
        "under a tenth of what [CLS] and [SEP] hold",
    )
    yield stated(
        f"added_is_little_{name}",
        claim,
        words.NEGLIGIBLE,
        gain - TENTH * held,
        context,
        side="below",
        conclusions=words.LITTLE,
    )
    yield _share(name, gain, held, context)
    net = over_heads(seen.of(TUNED) - seen.of(TUNED, "before"))
    claim = Text(
        f"{where.zh}其中：全部头平均的变化，增减相抵",
        f"{where.en}of this: the change over all heads, gains and losses together",
    )
    yield beside(stated(f"added_net_{name}", claim, words.NO_FIGURE, net, context))


def _share(name: str, gain: FloatArray, held: FloatArray, context: ProbeContext) -> Finding:
    """The gain as a share of what is held."""
    known = np.isfinite(gain) & np.isfinite(held)
    gains, holds = (average(one[known], context.resamples, context.seed) for one in (gain, held))
    share = gains.over(holds)
    where = _SAID[name].where
    return beyond(
        f"added_share_{name}",
        Text(
            f"{where.zh}其中：增加的注意力占 [CLS] 和 [SEP] 所占的比例",
            f"{where.en}of this: what was added, as a share of what [CLS] and [SEP] hold",
        ),
        words.NO_FIGURE,
        100 * share.value,
        100 * share.samples,
        p=None,
        n_queries=share.n_queries,
        unit="%",
        primary=False,
    )
