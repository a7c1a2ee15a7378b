"""Heads left out, exactly and fast: masks, the one masked loop, mask families, effects."""
