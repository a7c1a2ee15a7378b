"""One loop for pretraining and one for fine-tuning, their data, and the rules that make pairs."""
