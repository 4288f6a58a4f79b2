"""Checks of the sources: their structure, their types, and whether tests find faults in them."""
