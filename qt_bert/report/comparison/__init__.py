"""What the section that sets two models side by side is made of."""
