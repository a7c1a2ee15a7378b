"""Which heads and layers go, what else would have gone, and what it will cost on new queries."""
