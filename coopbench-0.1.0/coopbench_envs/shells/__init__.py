"""Shells: the interfaces of Gymnasium, PettingZoo and Stable-Baselines3 over one engine."""
