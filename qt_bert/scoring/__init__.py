"""Bulk scoring in resumable windows, and the orchestration of evaluate, compare, calibrate, explain."""
