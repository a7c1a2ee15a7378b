"""What the probe `space` is made of: vectors of words and pairs, seen in two dimensions."""
