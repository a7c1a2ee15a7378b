"""How redundant are the heads, and which of them matter alone? (`heads_of_query_title_bert`, 2.1, 2.4.2)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.redundancy.result import result
    from qt_bert.probes.redundancy.study import study

    return result(study(context), context)


PROBE = Probe(
    name="redundancy",
    order=10,
    title=Text("注意力头的冗余", "Redundancy of the heads"),
    question=Text(
        "去掉一部分头、一整层头、一个头，模型的分档会变差多少？",
        "How much worse does the model grade without a share of its heads, a layer's, or one?",
    ),
    run=_run,
    quick_seconds=45,
    uses=("reference",),
)
