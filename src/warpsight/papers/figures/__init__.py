"""One module for each kind of figure; `papers.validate` has the list of them."""
