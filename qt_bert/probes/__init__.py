"""Probes: one question about a model a file, listed by `qt_bert.probes.base.probes`."""
