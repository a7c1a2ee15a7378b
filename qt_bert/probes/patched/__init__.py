"""Patching between twins: a pair, and the same pair with its shared term replaced in the title."""
