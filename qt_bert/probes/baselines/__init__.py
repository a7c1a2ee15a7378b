"""The table of baselines, read from its record and judged anew."""
