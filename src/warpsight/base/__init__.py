"""What every floor may use: errors, units, number formats, a registry, and a cache on disk."""
