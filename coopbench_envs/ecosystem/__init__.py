"""Platform and market games: one or more hubs and the agents that live on them."""
