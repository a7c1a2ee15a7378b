"""The parts of the section `evaluation`, each a function of the evaluation's result."""
