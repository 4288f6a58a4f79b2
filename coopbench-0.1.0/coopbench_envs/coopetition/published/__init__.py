"""The published coopetition games (version 0), exactly as published."""
