"""Which probes score heads."""

from __future__ import annotations

NOT_OF_HEADS = {"layers", "usage", "space", "baselines"}
"""Probes of vectors or of whole models: their results score no head."""
