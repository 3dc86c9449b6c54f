"""Charts as inline SVG, for documents, reports and notebooks: `charts.py` says what is drawn, `svg.py` draws it."""
