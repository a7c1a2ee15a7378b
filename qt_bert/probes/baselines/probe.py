"""Is the cross-encoder better than what it replaced? (`heads_of_query_title_bert`, 1, 2.2 and 2.4)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.baselines.result import result
    from qt_bert.probes.baselines.table import table

    return result(table(context), context)


PROBE = Probe(
    name="baselines",
    order=140,
    title=Text("与其他做法相比", "Beside other ways"),
    question=Text(
        "同样的数据，把查询和标题拼在一起的 BERT，比 LSTM、双塔和按词切分的做法好吗？",
        "On the same data, is a BERT that reads both texts together better than an LSTM, two towers, "
        "or a model of words?",
    ),
    run=_run,
    quick_seconds=1,
    uses=("baseline_table",),
)
