"""Railways: networks, schedules and scores beside those of flatland-rl."""
