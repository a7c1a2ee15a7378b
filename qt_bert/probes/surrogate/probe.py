"""What do the matching heads compute? (Lu, Chen and Eickhoff 2025: a soft term frequency times idf)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.surrogate.result import result
    from qt_bert.probes.surrogate.study import study

    return result(study(context), context)


PROBE = Probe(
    name="surrogate",
    order=180,
    title=Text("匹配头在算什么", "What matching heads compute"),
    question=Text(
        "匹配头的注意力加上词的 idf，能拟合出模型的打分吗？比 BM25 和同层其他头更好吗？",
        "Does the attention of the matching heads, weighed by idf, tell the model's grade, and better "
        "than BM25 and other heads of their layers do?",
    ),
    run=_run,
    quick_seconds=5,
    uses=("heads", "corpus", "held_out_files"),
    needs=("matching",),
)
