"""Which behaviours a model has: minimal pairs of titles judged, and the heads that carry each."""
