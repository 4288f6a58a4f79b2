"""JSON lines: an export format for coopbench."""
