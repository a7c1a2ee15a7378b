"""What vectors hold, read by linear probes: properties, examples, vectors, ridge, controls, scores."""
