"""Pretraining and fine-tuning: the two loops, their data, losses and state."""
