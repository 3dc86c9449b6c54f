"""From a request to predictions: the one place that chains the steps, and the benchmark suites."""
