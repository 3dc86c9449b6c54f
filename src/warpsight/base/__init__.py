"""What every floor may use: errors, numbers with units, a registry, YAML nodes, and a cache on disk."""
