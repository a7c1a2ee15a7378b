"""Ray: a cluster, and the engine that hands out work."""
