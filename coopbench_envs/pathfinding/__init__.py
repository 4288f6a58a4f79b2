"""Pathfinding: many agents find their way to goals of their own without running into each other."""
