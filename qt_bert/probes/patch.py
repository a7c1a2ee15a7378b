"""Which heads carry a match into the grade? (Vig et al. 2020; Lu, Chen and Eickhoff 2025)."""

from __future__ import annotations

from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import Probe
from qt_bert.results import ProbeResult, Text


def _run(context: ProbeContext) -> ProbeResult:
    from qt_bert.probes.common.said import said_only
    from qt_bert.probes.patched.result import result
    from qt_bert.probes.patched.study import study

    found = study(context)
    if isinstance(found, Text):
        return said_only("patch", found, context)
    return result(found, context)


PROBE = Probe(
    name="patch",
    order=160,
    title=Text("补丁：哪些头把匹配带进打分", "Patching: which heads carry a match"),
    question=Text(
        "把标题里与查询共有的词换掉，分数会变；只把某个头的输出换回原样，能补回多少？",
        "Replacing the shared term in the title moves the grade; how much comes back when one "
        "head's output alone is put back?",
    ),
    run=_run,
    quick_seconds=15,
    uses=("heads",),
    needs=("matching",),
)
