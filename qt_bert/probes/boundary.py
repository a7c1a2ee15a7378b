"""Do heads know where words end? (`heads_of_query_title_bert`, 2.2)."""

from __future__ import annotations

from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import Probe
from qt_bert.results import ProbeResult, Text


def _run(context: ProbeContext) -> ProbeResult:
    from qt_bert.probes.word_ends.result import result
    from qt_bert.probes.word_ends.study import studies

    return result(studies(context), context)


PROBE = Probe(
    name="boundary",
    order=20,
    title=Text("词的边界", "Word boundaries"),
    question=Text(
        "有没有注意力头知道词在哪里结束？",
        "Do heads know where words end?",
    ),
    run=_run,
    quick_seconds=12,
    uses=("base", "gold", "second"),
    shows={"boundary_heads": ("boundary",)},
)
