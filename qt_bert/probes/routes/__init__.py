"""Routes: what reaches a reading head from the matching heads directly, and what through others."""
