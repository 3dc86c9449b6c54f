"""Reports in HTML: one file for each document, which needs no network. A pure function of the document."""
