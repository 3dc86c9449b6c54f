"""What a GPU is: the spec, the table of its keys, its YAML descriptions and catalogue, and the occupancy of a launch on it."""
