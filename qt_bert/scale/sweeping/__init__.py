"""Sweeps in shards."""
