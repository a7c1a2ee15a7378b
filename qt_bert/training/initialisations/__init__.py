"""What fine-tuning is worth by where it starts: four starts, tuned alike and judged alike."""
