"""What the probe `features` is made of: attention to words of a kind, and to special tokens."""
