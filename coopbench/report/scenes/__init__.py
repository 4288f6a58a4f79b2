"""Scenes of the player: what a page shows of an episode, one kind of game per file and script."""
