"""Title states: what an offline model makes of a title below the layer where it meets the query.

Stored by `qt-bert title-states` (`storing`), opened and checked (`reading`), read by a forward pass
that computes the rest (`forward`).
"""
