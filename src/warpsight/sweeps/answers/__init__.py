"""Answers from the results of a study: best designs, Pareto fronts, sensitivity, maps, speed-ups and energy, as documents."""
