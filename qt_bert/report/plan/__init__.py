"""The plan of a smaller model, for whoever decides about it."""
