"""The redundancy study in parts: what is run, what is claimed of it, what is drawn."""
