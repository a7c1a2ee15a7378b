"""Probes: one question about a model a file, all of one shape; found by `qt_bert.probes.registry`."""
