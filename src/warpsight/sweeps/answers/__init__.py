"""What the results of a study say: best designs, Pareto fronts, sensitivity, maps, speed-ups and energy, each as a plain document."""
