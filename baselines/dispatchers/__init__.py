"""Dispatchers: rules by which trains are run, on railways."""
