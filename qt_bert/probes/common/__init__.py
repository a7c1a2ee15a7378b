"""What the probes of heads' functions share: streamed passes, naming, controls, averages, maps."""
