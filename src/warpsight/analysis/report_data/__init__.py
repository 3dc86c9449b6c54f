"""Report data: everything that a report shows, as one document of plain values. `reports` draws it and computes nothing."""
