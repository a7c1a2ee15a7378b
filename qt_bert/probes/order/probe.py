"""Which heads encode word order, and does the grade depend on them? (`heads_of_query_title_bert`, 2.3)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.order.result import result
    from qt_bert.probes.order.study import study

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
