"""Checkpoints opened, verified and saved; the encoder families and the layer-by-layer forward.

Names are imported when first used: what only looks at the files of a folder needs no torch."""
