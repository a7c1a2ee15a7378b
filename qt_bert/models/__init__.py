"""Checkpoints opened, verified and saved; the encoder families and the layer-by-layer forward."""
