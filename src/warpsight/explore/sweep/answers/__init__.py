"""What a study's results say: best designs, Pareto fronts, sensitivity, maps and speed-ups, each as a plain document."""
