"""The report: one page, its data and its tables, drawn from a run folder's results."""
