"""A student trained to do what its teacher does, by a plan; and the runs that say whether the plan pays."""
