"""The trace of a launch: what every producer makes and every model reads, in memory and on disk, imported and exported."""
