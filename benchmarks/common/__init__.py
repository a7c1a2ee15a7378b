"""Shared by benchmarks: arguments, machine figures, FLOPs, README sections."""
