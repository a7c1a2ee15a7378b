"""Do heads look along links between words, in parts: linked and unlinked words, exchange, tree, removal."""
