"""Which layer holds what? (`what_bert_and_transformer_learn`, parts 2 and 3; Tenney et al. 2019, Hewitt and Liang 2019)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.layers.result import result
    from qt_bert.probes.layers.samples import too_few
    from qt_bert.probes.layers.study import study
    from qt_bert.probes.naming import said_only

    if few := too_few(context):
        return said_only("layers", few, context)
    return result(study(context), context)


PROBE = Probe(
    name="layers",
    order=100,
    title=Text("各层存了什么", "What layers hold"),
    question=Text(
        "位置、词、句法、匹配和档位，从哪一层读得出？",
        "From which layer can position, words, syntax, matches and the grade be read?",
    ),
    run=_run,
    quick_seconds=16,
    uses=("base", "treebanks", "texts", "initialisations"),
)
