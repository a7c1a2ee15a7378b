"""Which layers must see both texts? (Vast et al. 2026; Zhan et al. 2020)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.ladder.result import result
    from qt_bert.probes.ladder.study import study

    return result(study(context), context)


PROBE = Probe(
    name="ladder",
    order=195,
    title=Text("哪些层要同时看到两段文本", "Which layers must see both texts"),
    question=Text(
        "从最低层起，一层一层地把查询和标题切开，切到哪一层评分才变差？",
        "With query and title cut apart layer by layer from the lowest, where do the grades begin to "
        "suffer?",
    ),
    run=_run,
    quick_seconds=12,
    uses=("heads",),
    needs=("matching",),
)
