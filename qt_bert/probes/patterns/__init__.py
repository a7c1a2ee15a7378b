"""Maps of attention by their pattern: what `patterns` is made of, from drawn maps to claims."""
