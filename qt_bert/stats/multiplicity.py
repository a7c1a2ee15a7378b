"""The levels and margins of probes that are not ported to `stats.verdict` yet."""

from __future__ import annotations

from qt_bert.stats.tests import q_values

__all__ = ["FALSE_DISCOVERY_RATE", "NO_EFFECT_ACCURACY", "NO_EFFECT_SPEARMAN", "q_values"]

FALSE_DISCOVERY_RATE = 0.05
NO_EFFECT_ACCURACY = 0.02
NO_EFFECT_SPEARMAN = 0.02
