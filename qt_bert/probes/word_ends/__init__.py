"""The study of word boundaries in parts: decisions, what heads say of them, what is claimed and drawn."""
