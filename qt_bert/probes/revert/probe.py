"""What did tuning teach the matching heads? (`heads_of_query_title_bert`, 2.4.1; Perlman et al.)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.naming import said_only
    from qt_bert.probes.revert.result import result
    from qt_bert.probes.revert.study import study
    from qt_bert.probes.revert.words import PRUNED

    if context.model.checkpoint.kept is not None:
        return said_only("revert", PRUNED, context)
    return result(study(context), context)


PROBE = Probe(
    name="revert",
    order=190,
    title=Text("收回微调", "Tuning taken back"),
    question=Text(
        "把匹配头换回微调前的权重，模型会差多少？微调让头更多还是更少地看相同的词？",
        "How much worse is the model with its matching heads as they were before tuning, and does "
        "tuning make heads look more or less at the same word?",
    ),
    run=_run,
    quick_seconds=7,
    uses=("heads", "held_out_files"),
    needs_base=True,
    needs=("matching",),
)
