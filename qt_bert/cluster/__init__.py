"""Scoring on a Ray cluster: inputs cut into partitions, one part file each."""
