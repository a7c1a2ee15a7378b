"""Do heads look at words of a kind, or at special tokens? (`dark_secrets_of_bert`; Kovaleva 4.3)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.features.result import result
    from qt_bert.probes.features.study import study

    return result(study(context), context)


PROBE = Probe(
    name="features",
    order=80,
    title=Text("语言特征", "Linguistic features"),
    question=Text(
        "头看的是名词、动词、否定词，还是 [CLS]、[SEP] 和标点？微调改变了多少？",
        "Do heads look at nouns, verbs and negation, or at [CLS], [SEP] and punctuation? And what does "
        "fine-tuning change?",
    ),
    run=_run,
    quick_seconds=3,
    uses=("base", "treebanks"),
)
