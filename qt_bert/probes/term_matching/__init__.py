"""Parts of the probe `matching`: which heads match terms, and what they are worth."""
