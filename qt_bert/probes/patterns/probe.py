"""Which pattern has each head's map, and does fine-tuning change it? (`dark_secrets_of_bert`; Kovaleva et al. 2019, 4)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.patterns.result import result
    from qt_bert.probes.patterns.study import study

    return result(study(context), context)


PROBE = Probe(
    name="patterns",
    order=70,
    title=Text("注意力图的样子", "Patterns of the maps"),
    question=Text(
        "每个头的注意力图是竖线、对角线、块，还是混杂的？微调以后竖线是不是更多？",
        "Is a head's map vertical, diagonal, a block or heterogeneous, and do vertical ones grow with "
        "fine-tuning?",
    ),
    run=_run,
    quick_seconds=2,
    uses=("base",),
    reads=(
        "patterns/classifier.json",
        "patterns/answers.csv",
        "patterns/maps.csv",
        "patterns/maps.safetensors",
    ),
)
