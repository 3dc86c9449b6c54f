"""GPU descriptions from what other tools and the driver know of a GPU."""
