"""Which probes score heads."""

NOT_OF_HEADS = {"layers", "usage", "space", "baselines", "behaviour", "routes", "ladder"}
"""Probes of vectors, of whole models, of layers cut, or in a quick run of heads as a set: they score
no head."""
