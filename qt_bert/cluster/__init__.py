"""Work in parts, on many machines: what is cut, where it lies, what is done and what is missing."""
