"""Results of every model and simulator: the prediction, its CPI stack, and the one definition of error."""
