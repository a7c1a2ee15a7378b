"""What several benchmarks share: the machine's figures, counted FLOPs, the page of figures."""
