"""Parts of the probe `revert`: what tuning taught, told by taking it back."""
