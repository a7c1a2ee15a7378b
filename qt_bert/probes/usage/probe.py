"""Does the model use what its vectors hold? (`primer_in_bertology`; Elazar et al. 2021)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.layers import too_few
    from qt_bert.probes.naming import said_only
    from qt_bert.probes.texts import texts_of
    from qt_bert.probes.usage.result import result
    from qt_bert.probes.usage.study import study

    if few := too_few(context):
        return said_only("usage", texts_of("layers").text("nothing.few", few), context)
    return result(study(context), context)


PROBE = Probe(
    name="usage",
    order=110,
    title=Text("含有与使用", "Encoded and used"),
    question=Text(
        "向量里读得出的语言性质，模型打分时真的用到了吗？",
        "Which of the properties that can be read from its vectors does the model use to grade?",
    ),
    run=_run,
    quick_seconds=9,
    uses=("treebanks", "texts"),
)
