"""Which upper head collects the matched terms for [CLS]? (`heads_of_query_title_bert`, 2.4.3)."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text


def _run(context: Context) -> ProbeResult:
    from qt_bert.probes.focus.result import result
    from qt_bert.probes.focus.study import study

    return result(study(context), context)


PROBE = Probe(
    name="focus",
    order=60,
    title=Text("高层的头读取词匹配", "Upper heads read the term matches"),
    question=Text(
        "高层哪个头让 [CLS] 注意查询与标题共有的词？它依赖低层的匹配头吗？",
        "Which upper head turns [CLS] to the terms that query and title share, and does it need "
        "the matching heads below?",
    ),
    run=_run,
    quick_seconds=10,
    uses=("reference",),
    shows={
        "heads": ("focused", "averted"),
        "reader_spread": ("reader",),
        "case": ("reader",),
        "wiring": ("reader", "matching_below"),
    },
)
