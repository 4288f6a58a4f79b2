"""Tables of a report, one module per subject."""
