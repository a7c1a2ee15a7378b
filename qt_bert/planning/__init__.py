"""Smaller models: which heads and layers stay, pruning, distilling, export."""
