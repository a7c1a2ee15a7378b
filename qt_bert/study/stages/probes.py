"""Every probe is a stage."""

from __future__ import annotations

from qt_bert.probes.registry import probes
from qt_bert.study.probe_stage import probe_stage
from qt_bert.study.stage import STAGES

for probe in probes():
    STAGES.add(probe_stage(probe))
