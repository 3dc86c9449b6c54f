"""Charts as inline SVG, for documents, reports and notebooks: `charts.py` defines charts, `svg.py` draws them."""
