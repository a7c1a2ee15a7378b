"""What does the model get right and wrong? Minimal pairs of titles (after ABNIRML, 3)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.shipped import BEHAVIOURS, shipped
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.behaviour.bands import band_of
    from qt_bert.probes.behaviour.reading import read_cases
    from qt_bert.probes.behaviour.result import result
    from qt_bert.probes.behaviour.study import study
    from qt_bert.probes.behaviour.words import NO_BAND
    from qt_bert.probes.naming import said_only

    cases = read_cases(context.cases or shipped(BEHAVIOURS))
    band = band_of(context)
    if band is None:
        return said_only("behaviour", NO_BAND, context)
    return result(study(context, cases, band), context)


PROBE = Probe(
    name="behaviour",
    order=150,
    title=Text("行为卡", "Behaviour card"),
    question=Text(
        "哪些差别模型分得清，哪些不该影响它的变化影响了它，又是哪些头在起作用？",
        "Which differences between titles does the model tell, which changes move it that must not, "
        "and which heads carry each?",
    ),
    run=_run,
    quick_seconds=14,
    uses=("cases", "band_from"),
    reads=(BEHAVIOURS,),
    shows={"chosen_heads": None},
)
