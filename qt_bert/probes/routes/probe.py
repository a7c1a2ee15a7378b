"""Along which way does a match reach the grade? (`heads_of_query_title_bert`, 2.4.3; Wang et al. 2022)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.naming import said_only
    from qt_bert.probes.routes.asked import Asked, asked
    from qt_bert.probes.routes.result import result
    from qt_bert.probes.routes.study import study

    found = asked(context)
    if not isinstance(found, Asked):
        return said_only("routes", found, context)
    return result(study(found, context), context)


PROBE = Probe(
    name="routes",
    order=170,
    title=Text("从匹配头到分数的路径", "Routes from the matching heads to the grade"),
    question=Text(
        "低层匹配头的作用，有多少直接进入高层的阅读头，又从哪个入口进入？",
        "How much of what the matching heads do reaches the upper reader directly, and by which "
        "entry?",
    ),
    run=_run,
    quick_seconds=8,
    uses=("heads", "reference"),
    needs=("matching", "focus"),
)
