"""Processes that may die: for a partition that workers died of, and for Ray; what they leave."""
