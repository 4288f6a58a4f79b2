"""Maps: how instances are drawn, that is the positions of agents, goals and obstacles."""
