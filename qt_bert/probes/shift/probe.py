"""What does fine-tuning change, and what is it worth?

`heads_of_query_title_bert`, 2.4.1; `dark_secrets_of_bert`; `primer_in_bertology`.
"""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.shift.result import result
    from qt_bert.probes.shift.study import study

    return result(study(context), context)


PROBE = Probe(
    name="shift",
    order=50,
    title=Text("微调改变了什么", "What fine-tuning changes"),
    question=Text(
        "微调以后，头看相同的词是不是更多了，看自身和 [SEP] 是不是更少了？",
        "After fine-tuning, do heads look more at matched terms, and less at themselves and [SEP]?",
    ),
    run=_run,
    quick_seconds=8,
    uses=("second", "held_out_files", "initialisations"),
    needs_base=True,
    shows={"weights_matching": ("matching_before",), "change_matched": ("strengthened",)},
)
