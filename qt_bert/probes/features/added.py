"""What fine-tuning adds on nouns, objects and negation, beside what [CLS] and [SEP] hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.features import words
from qt_bert.probes.features.kinds import TUNED
from qt_bert.probes.features.looking import Looking
from qt_bert.probes.features.measures import gained, gaining, over_heads, summed
from qt_bert.probes.features.stated import stated
from qt_bert.probes.features.study import Part, Study
from qt_bert.probes.naming import average
from qt_bert.results.probe import Finding
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

TENTH = 0.1


_KINDS = {
    "pairs": Text("名词和否定词", "nouns and negation"),
    "treebank": Text("名词、宾语和否定词", "nouns, objects and negation"),
}


def added(name: str, part: Part, study: Study, context: Context) -> Iterator[Finding]:
    """The claim, by the change over all heads; beside it that change as a share of what is held,
    what the heads that gained on discovery make of it, and the same by the source's measure.

    In the claim gains and losses are set off: heads that only trade attention among each other add
    nothing, and counted by their gains alone they would.
    """
    seen = part.validation
    if not seen.has(TUNED):
        return
    where, kinds = words.ON[name], _KINDS[name]
    held = over_heads(summed(seen, ("cls", "sep")))
    net = over_heads(_change(seen, "share"))
    claim = Text(
        f"{where.zh}微调给{kinds.zh}增加的注意力，不到 [CLS] 和 [SEP] 所占的十分之一",
        f"{where.en}what fine-tuning adds on {kinds.en} is under a tenth of what [CLS] and [SEP] hold",
    )
    yield stated(
        f"added_is_little_{name}",
        claim,
        words.NEGLIGIBLE,
        net - TENTH * held,
        context,
        side="below",
        conclusions=words.LITTLE,
    )
    yield _share(f"added_share_{name}", where, words.ADDED, net, held, context)
    if part.discovery.has(TUNED):
        gain = gained(seen, TUNED, gaining(part.discovery, TUNED, study.shape))
        yield _share(f"added_gains_{name}", where, words.ADDED_GAINS, gain, held, context)
    peaks = over_heads(summed(seen, ("cls", "sep"), measure="peak"))
    most = over_heads(_change(seen, "peak"))
    yield _share(f"added_peak_{name}", where, words.ADDED_PEAK, most, peaks, context)


def _change(seen: Looking, measure: str) -> FloatArray:
    return seen.of(TUNED, "after", measure) - seen.of(TUNED, "before", measure)


def _share(
    id: str, where: Text, said: Text, gain: FloatArray, held: FloatArray, context: Context
) -> Finding:
    """What was added as a share of what is held, both [queries]; stands beside the claim."""
    known = np.isfinite(gain) & np.isfinite(held)
    gains, holds = (average(one[known], context.resamples, context.seed) for one in (gain, held))
    share = gains.over(holds)
    return beyond(
        id,
        Text(where.zh + said.zh, where.en + said.en),
        words.NO_FIGURE,
        100 * share.value,
        100 * share.samples,
        p=None,
        n_queries=share.n_queries,
        unit="%",
        primary=False,
    )
