"""Pairs of a query and a title: reading and checking files of them, grades, tokens, words."""
