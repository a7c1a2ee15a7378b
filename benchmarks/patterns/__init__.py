"""The parts of `benchmarks/pattern_maps.py`: contact sheets, agreement, training."""
