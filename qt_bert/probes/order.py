"""Which heads encode word order, and does the grade depend on them? (`heads_of_query_title_bert`, 2.3)."""

from __future__ import annotations

from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import Probe
from qt_bert.results import ProbeResult, Text


def _run(context: ProbeContext) -> ProbeResult:
    from qt_bert.probes.word_order.result import result
    from qt_bert.probes.word_order.study import study

    return result(study(context), context)


PROBE = Probe(
    name="order",
    order=30,
    title=Text("语序", "Word order"),
    question=Text(
        "哪些头的注意力跟着位置走？去掉它们，模型还看得出标题被打乱了吗？",
        "Which heads' attention goes by places, and does the model see a shuffled title without them?",
    ),
    run=_run,
    quick_seconds=18,
    uses=("reference", "second"),
    shows={
        "order_scores": ("order_named",),
        "order_identity": ("order",),
        "order_curve": ("order",),
        "order_case": ("order",),
    },
)
