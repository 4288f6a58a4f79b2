"""Platform, market and commons games: agents that live on something shared."""
