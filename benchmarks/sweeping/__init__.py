"""The parts of `benchmarks/sweep.py`: our loop, what a user writes today, and both measured."""
