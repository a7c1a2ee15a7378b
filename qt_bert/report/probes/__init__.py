"""What the sections of probes are made of."""
