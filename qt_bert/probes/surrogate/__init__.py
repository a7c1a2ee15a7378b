"""Parts of the probe `surrogate`: what matching heads compute, as soft counts of query terms."""
