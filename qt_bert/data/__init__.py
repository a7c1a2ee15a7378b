"""Pairs of a query and a title: files, grades, tokens, words."""
