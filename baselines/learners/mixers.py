"""Mixers: the value of a team from the values of its members' choices.

VDN adds them (Sunehag et al. 2018). QMIX mixes them by a network whose weights are functions of the
global state and never negative, so that a choice that is better for a member is never worse for the
team (Rashid et al. 2018, section 4).
"""

from collections.abc import Callable

import torch

__all__ = ["Mixer", "Monotone", "add"]

_EMBED, _HYPER = 32, 64  # widths of the mixing network and of its hypernetworks, as published

Mixer = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def add(values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """Return the sum over agents, (..., 1), of values (..., agents)."""
    return values.sum(dim=-1, keepdim=True)


class Monotone:
    """QMIX's mixing network: Q = elu(q |W1(s)| + b1(s)) |W2(s)| + b2(s)."""

    def __init__(self, agents: int, state: int) -> None:
        self._agents = agents

        def two_layers(width: int, outputs: int) -> torch.nn.Sequential:
            first, second = torch.nn.Linear(state, width), torch.nn.Linear(width, outputs)
            return torch.nn.Sequential(first, torch.nn.ReLU(), second)

        self.module = torch.nn.ModuleDict(
            {
                "weights1": two_layers(_HYPER, agents * _EMBED),
                "biases1": torch.nn.Linear(state, _EMBED),
                "weights2": two_layers(_HYPER, _EMBED),
                "biases2": two_layers(_EMBED, 1),
            }
        )

    def __call__(self, values: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Return the team's value, (..., 1), from values (..., agents) and states (..., size)."""
        part = self.module
        weights = part["weights1"](state).abs()
        weights = weights.reshape(*state.shape[:-1], self._agents, _EMBED)
        mixed = (values.unsqueeze(-2) @ weights).squeeze(-2) + part["biases1"](state)
        hidden = torch.nn.functional.elu(mixed)
        team = (hidden * part["weights2"](state).abs()).sum(dim=-1, keepdim=True)
        total: torch.Tensor = team + part["biases2"](state)
        return total
