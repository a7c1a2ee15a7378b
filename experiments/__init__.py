"""How what ships was made: one-off studies, which use the package and are used by none of it."""
