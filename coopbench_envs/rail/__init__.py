"""Rail: trains that share a railway network."""
