"""Ray: a cluster, the proof of its machines, and the engine that hands out work."""
