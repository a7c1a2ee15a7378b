"""The stages of a run, their folder, reuse and resume."""
