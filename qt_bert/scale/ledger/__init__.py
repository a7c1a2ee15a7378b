"""What a run has to do and what is done: its folder, which a killed run goes on with."""
