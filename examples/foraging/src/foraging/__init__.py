"""Level-based foraging for coopbench."""
