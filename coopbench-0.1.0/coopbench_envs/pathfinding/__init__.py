"""Pathfinding: many agents move to individual goals without colliding."""
