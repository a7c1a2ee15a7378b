"""What a model uses of what its vectors hold: properties erased, and what the grades lose."""
