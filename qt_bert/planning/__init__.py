"""From proof to a smaller model: which heads and layers stay, pruning, distilling, export."""
