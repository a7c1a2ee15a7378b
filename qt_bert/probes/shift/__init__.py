"""What fine-tuning changes, in parts: matched terms, two models side by side, claims, pictures."""
