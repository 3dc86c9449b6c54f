"""Reports as HTML: one self-contained file for each document, which needs no network. A pure function of the document."""
