"""The parts of `benchmarks/pattern_maps.py`: drawing, contact sheets, agreement, training."""
