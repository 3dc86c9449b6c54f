"""What predictions mean: explanations by line, advice, what-if grids, checks of assumptions, and the data of reports."""
