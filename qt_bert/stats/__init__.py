"""Metrics, values with their uncertainty over queries, tests and verdicts.

Knows no model and reads no file.
"""
