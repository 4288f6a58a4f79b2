"""Critics of actors: what they see of every row, and in which units they value it."""

import numpy as np
import torch

from coopbench.baselines.learners.checkpoint import Part
from coopbench.baselines.learners.experience import Rows, scaling

__all__ = ["OBSERVATIONS", "OWN", "STATE", "STATE_AND_OWN", "ValueScale", "View"]

# What a critic sees of a row.
OWN, STATE, STATE_AND_OWN, OBSERVATIONS = "own", "state", "agent", "observations"
_MEMORY_OF_SCALE = 0.99999  # of the running moments of values, as published


class View:
    """What critics see of every row; ``masked``: nothing but its seat of a dead agent."""

    def __init__(self, rows: Rows, kind: str, *, masked: bool, scaled: bool) -> None:
        self._rows, self._kind, self._masked = rows, kind, masked
        self._seats = rows.agents if rows.identity else 0
        self._features = rows.inputs - self._seats
        size = 0
        if kind in (STATE, STATE_AND_OWN):
            size = rows.state().shape[1]
            self._centre, self._scale = scaling([rows.engine.state_space], scaled=scaled)
        beside = {OWN: rows.inputs, STATE: self._seats, STATE_AND_OWN: rows.inputs}
        self.size = size + beside.get(kind, rows.agents * self._features + self._seats)

    def __call__(
        self, inputs: np.ndarray, state: np.ndarray, alive: np.ndarray
    ) -> list[torch.Tensor]:
        """Return each model's rows (rows, size) from all inputs, the state and who is alive."""
        rows = self._rows
        if self._kind == OWN:
            return [torch.from_numpy(part).clone() for part in rows.cut(inputs)]
        view = np.zeros((*alive.shape, self.size), np.float32)
        if self._kind == OBSERVATIONS:
            seen = inputs[:, :, : self._features].reshape(len(inputs), -1)
        else:
            seen = (state - self._centre) * self._scale
        view[:, :, : seen.shape[1]] = seen[:, None]
        view[:, :, seen.shape[1] :] = inputs if self._kind == STATE_AND_OWN else 0.0
        if self._masked:
            view[~alive] = 0.0
        if self._seats:
            view[:, :, -self._seats :] = np.eye(self._seats, dtype=np.float32)
        return [torch.from_numpy(part) for part in rows.cut(view)]


class ValueScale:
    """Running mean and deviation of returns, by which a critic's outputs are scaled.

    Moments forget by the factor .99999 an update and are divided by the sum of their weights, as
    in the published code of MAPPO (Yu et al. 2022). Without ``used`` values stay as they are.
    """

    def __init__(self, *, used: bool) -> None:
        self._used, self._moments = used, np.zeros(3)  # mean, mean square, weight

    def add(self, returns: torch.Tensor) -> None:
        """Take in the returns of an update."""
        values = returns.double().numpy()
        moments = np.array([values.mean(), (values**2).mean(), 1.0])
        self._moments = _MEMORY_OF_SCALE * self._moments + (1 - _MEMORY_OF_SCALE) * moments

    def _unit(self) -> tuple[float, float]:
        """Return mean and deviation; 0 and 1 before the first update."""
        mean, square, weight = self._moments
        if not self._used or weight == 0.0:
            return 0.0, 1.0
        mean, square = mean / weight, square / weight
        return float(mean), float(np.sqrt(max(square - mean**2, 1e-2)))

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        """Return values in units of the critic."""
        mean, deviation = self._unit()
        return (values - mean) / deviation

    def unscaled(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return the values that outputs of the critic mean."""
        mean, deviation = self._unit()
        return outputs * deviation + mean

    def parts(self) -> dict[str, Part]:
        """Return the moments."""
        return {"moments": self._moments}
