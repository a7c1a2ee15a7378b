"""The parts of `benchmarks/sweep.py`: our loop, the plain loop, measuring, the table."""
