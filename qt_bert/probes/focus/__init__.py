"""Who reads the matched terms: the [CLS] row of an upper layer, and what lower heads give it."""
