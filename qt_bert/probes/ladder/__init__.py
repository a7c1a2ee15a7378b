"""Parts of the probe `ladder`: which layers must see both texts."""
