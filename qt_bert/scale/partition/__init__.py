"""One partition, scored in one process: what it makes, and what becomes of faults."""
