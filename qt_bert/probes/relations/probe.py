"""Do heads look along links between words? (`dark_secrets_of_bert`, linguistically interpretable heads)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.relations.result import result
    from qt_bert.probes.relations.study import study

    return result(study(context), context)


PROBE = Probe(
    name="relations",
    order=90,
    title=Text("词与词的关系", "Links between words"),
    question=Text(
        "有没有注意力头专看语法或语义上有关系的两个词？去掉它们，模型会变差吗？",
        "Do heads look from a word to one that it is linked to, and does the model need them?",
    ),
    run=_run,
    quick_seconds=3,
    uses=("base", "treebanks"),
    reads=("pairs/alignments.tsv",),
    shows={"relations_left_out": ("relations",)},
)
