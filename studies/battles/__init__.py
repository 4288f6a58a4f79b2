"""Certificates of battles: the search for plans, and the constants of the enemies' script."""
