"""The inputs of a run, found and cut into partitions before it begins."""
