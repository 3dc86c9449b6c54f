"""Pictures as inline SVG, for documents, reports and notebooks: `charts.py` says what is drawn, `sheet.py` draws it."""
