"""The table of baselines: short models of one recipe, trained, judged and timed side by side."""
