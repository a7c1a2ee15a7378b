"""Studies that are computed here: one for a model at a time, whoever started it; all may look in."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from qt_bert.inspection.background import Background
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.studied import Studied, keep_here
from qt_bert.inspection.turns import Job
from qt_bert.progress import Progress
from qt_bert.results import Text

STEPS = {
    "matching": Text("词的匹配", "term matching"),
    "order": Text("语序", "word order"),
    "boundary": Text("词的边界", "word boundaries"),
    "shift": Text("与微调前比较", "comparing with the base"),
    "redundancy": Text("逐个去掉每个头", "leaving out each head"),
    "focus": Text("[CLS] 看什么", "what [CLS] looks at"),
}
"""What a study here is doing, by the notes of its progress."""

_RUNNING: WeakKeyDictionary[Inspected, Background[Studied]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def begin_study(inspected: Inspected, base: Inspected | None = None) -> Background[Studied]:
    """The study of a model that is under way, or a new one; its result is kept with the model."""
    from qt_bert.inspection.sampled.study import TOTAL, study_here

    def work(job: Job, shown: Progress) -> Studied:
        studied = study_here(inspected, job, shown, base=base)
        keep_here(inspected, studied)
        return studied

    with _LOCK:
        running = _RUNNING.get(inspected)
        if running is None or not running.goes_on:
            running = _RUNNING[inspected] = Background(inspected.turns, work, total=TOTAL)
        return running
