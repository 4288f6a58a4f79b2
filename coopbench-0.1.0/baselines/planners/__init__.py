"""Planners: paths and velocities, in pathfinding."""
