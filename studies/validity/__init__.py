"""What the version 1 games, the intervals and the decisions of reports are worth."""
