"""What a GPU is: the spec, its YAML descriptions and catalogue, and the occupancy of a launch on it."""
