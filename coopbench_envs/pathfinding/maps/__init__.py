"""Maps: where agents, goals and obstacles begin, apart from the dynamics that move the agents."""
