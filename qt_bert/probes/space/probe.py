"""Where do words and pairs lie, layer by layer? (`what_bert_and_transformer_learn`, part 2)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.space.result import result
    from qt_bert.probes.space.study import study

    return result(study(context), context)


PROBE = Probe(
    name="space",
    order=120,
    title=Text("向量的空间", "The space of vectors"),
    question=Text(
        "在哪一层，同词性的词、同一段的词、同一档的文本对聚在一起？",
        "In which layer do words of a part of speech, words of a text, or pairs of a grade lie together?",
    ),
    run=_run,
    quick_seconds=2,
)
