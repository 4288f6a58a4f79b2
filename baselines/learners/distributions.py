"""Distributions of actions, as arrays: draws, log-probabilities, entropies, and their derivatives.

The last axis of ``outputs`` belongs to one row. Derivatives are written out, because minibatches
are small: see ``Perceptron.fit``.
"""

from typing import NamedTuple

import numpy as np
import torch

__all__ = ["Choices", "Normal"]

_HALF_LOG_TAU = 0.5 * float(np.log(2.0 * np.pi))


class Normal(NamedTuple):
    """Independent normal distributions of the numbers of an action."""

    outputs: np.ndarray  # means, (..., numbers) float32
    log_std: np.ndarray  # (numbers,) float32

    def draw(self) -> np.ndarray:
        """Return actions (..., numbers), by the random numbers of torch."""
        noise = torch.randn(self.outputs.shape).numpy()
        actions: np.ndarray = self.outputs + np.exp(self.log_std) * noise
        return actions

    def log_probs(self, actions: np.ndarray) -> np.ndarray:
        """Return the logarithms of the densities of actions, (...)."""
        apart = (actions - self.outputs) / np.exp(self.log_std)
        densities = -0.5 * apart**2 - self.log_std - _HALF_LOG_TAU
        total: np.ndarray = densities.sum(-1)
        return total

    def entropies(self) -> np.ndarray:
        """Return entropies in nats, (...)."""
        return np.broadcast_to((0.5 + _HALF_LOG_TAU + self.log_std).sum(), self.outputs.shape[:-1])

    def gradients(
        self, actions: np.ndarray, by_log_probs: np.ndarray, by_entropies: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives by ``outputs`` and ``log_std``, from those by the other two (...)."""
        std = np.exp(self.log_std)
        apart = (actions - self.outputs) / std
        by_densities = by_log_probs[..., None]
        by_numbers = by_densities * (apart**2 - 1.0) + by_entropies[..., None]
        return by_densities * apart / std, by_numbers.reshape(-1, len(std)).sum(0)


class Choices(NamedTuple):
    """Distributions of one choice each, of those that are legal."""

    outputs: np.ndarray  # log-probabilities, (..., choices) float32; -inf where illegal

    @classmethod
    def of(cls, outputs: np.ndarray, legal: np.ndarray) -> "Choices":
        """Return the distributions whose log-probabilities are these outputs plus a constant."""
        logits = np.where(legal, outputs, -np.inf)
        logits -= logits.max(-1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return cls(logits)

    def draw(self) -> np.ndarray:
        """Return choices (...), by the random numbers of torch."""
        chances = torch.from_numpy(np.exp(self.outputs))
        choices: np.ndarray = torch.multinomial(chances, 1)[..., 0].numpy()
        return choices

    def log_probs(self, actions: np.ndarray) -> np.ndarray:
        """Return the logarithms of the probabilities of choices, (...)."""
        chosen: np.ndarray = np.take_along_axis(self.outputs, actions[..., None], -1)[..., 0]
        return chosen

    def entropies(self) -> np.ndarray:
        """Return entropies in nats, (...)."""
        entropies: np.ndarray = -(np.exp(self.outputs) * self._finite()).sum(-1)
        return entropies

    def gradients(
        self, actions: np.ndarray, by_log_probs: np.ndarray, by_entropies: np.ndarray
    ) -> tuple[np.ndarray, None]:
        """Return derivatives by what ``of`` was given, from those by the other two (...)."""
        chances, surprises = np.exp(self.outputs), -self._finite()
        chosen = np.zeros_like(chances)
        np.put_along_axis(chosen, actions[..., None], 1.0, -1)
        excess = surprises - (chances * surprises).sum(-1, keepdims=True)
        result: np.ndarray = by_log_probs[..., None] * (chosen - chances)
        return result + by_entropies[..., None] * chances * excess, None

    def _finite(self) -> np.ndarray:
        """Return log-probabilities, with the least number in place of minus infinity."""
        finite: np.ndarray = np.maximum(self.outputs, np.finfo(np.float32).min)
        return finite
