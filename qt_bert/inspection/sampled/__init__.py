"""Studying a model here, on few pairs, for the page."""
