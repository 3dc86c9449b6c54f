"""Dossiers: everything that a report shows, as one document of plain values. `report/html` draws it and computes nothing."""
