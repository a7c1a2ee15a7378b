"""One loop for pretraining and one for fine-tuning, and their data."""
