"""Which heads match terms of query and title, and what are they worth? (`heads_of_query_title_bert`, 2.4)."""

from __future__ import annotations

from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import Probe
from qt_bert.results import ProbeResult, Text


def _run(context: ProbeContext) -> ProbeResult:
    from qt_bert.probes.term_matching.result import result
    from qt_bert.probes.term_matching.study import study

    return result(study(context), context)


PROBE = Probe(
    name="matching",
    order=40,
    title=Text("词项匹配", "Term matching"),
    question=Text(
        "哪些头负责把 query 与 title 中相同的词对应起来，去掉它们模型还剩多少？",
        "Which heads match the terms of query and title, and what is left without them?",
    ),
    run=_run,
    quick_seconds=30,
    uses=("reference", "second"),
    reads=("pairs/alignments.tsv",),
    shows={
        "matching_scores": ("named",),
        "matching_kinds": ("matching",),
        "matching_curve": ("matching",),
        "matching_by_grade": ("matching",),
        "matching_by_overlap": ("matching",),
        "matching_cut": ("matching",),
        "matching_kept": ("low_half",),
    },
)
