"""Where inputs, models and results lie: folders of this machine, or addresses."""
