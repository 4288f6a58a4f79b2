"""The base of learners on the rows of a game: the loop over steps, and scaled rewards."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench.baselines.errors import Diverged
from coopbench.baselines.learner import Training, settings_of
from coopbench.baselines.learners.checkpoint import Part, check_saved, load_parts, save_parts
from coopbench.baselines.learners.experience import Rows
from coopbench.baselines.learners.torch_tools import torch_apart, torch_seed
from coopbench.baselines.networks.network import Network, NetworkPolicy

__all__ = ["RewardScale", "RowLearner"]


class RowLearner:
    """Base of learners on the rows of a game, which add ``advance``, ``parts`` and ``network``.

    ``Rows`` says which hyperparameters it reads.
    """

    def __init__(self, training: Training, *, global_state: bool = False) -> None:
        name, params = training.learner, training.params
        if not (name.endswith("_shared") or params.seat_number):
            raise ValueError(
                f"seat_number was False with learner {name!r}, which has a model for every seat; "
                f"allowed with '{name}_shared', whose only model then plays any number of agents."
            )
        self.name, self.seed, self.steps, self._params = name, training.seed, 0, params
        self._rows = Rows(training, global_state=global_state)
        self._numbers = torch_seed(training.seed)

    def learn(self, steps: int) -> dict[str, float]:
        """Train up to ``steps`` steps of the environment, counted from the beginning.

        Returns means of all reports since the last call. Raises ``Diverged``, and ``ValueError``
        if not even one step of all lanes fits in.
        """
        lanes = self._params.lanes
        if steps < lanes:
            raise ValueError(
                f"Learner {self.name!r} was asked for {steps} steps, but one step of its {lanes} "
                f"lanes counts as {lanes}; ask for more steps, or set lanes to at most {steps}."
            )
        reports: list[dict[str, float]] = []
        with torch_apart(self._numbers):
            while self.steps + lanes <= steps:
                try:
                    reports += self.advance()
                except Diverged as error:
                    raise Diverged(
                        f"Learner {self.name!r} on {self._rows.engine.spec.id} diverged at step "
                        f"{self.steps:,}: {error} A smaller learning_rate, or scale_rewards, may "
                        f"help."
                    ) from None
        return self._rows.tally() | _means(reports)

    def advance(self) -> list[dict[str, float]]:
        """Play one step in all lanes, and update models when it is time.

        Returns one report per updated model, named numbers. ``self.steps`` grows by the number of
        lanes.
        """
        raise NotImplementedError

    def parts(self) -> dict[str, Part]:
        """Return what training needs to go on, by name, besides the games and random numbers."""
        raise NotImplementedError

    def network(self) -> Network:
        """Return what acts without exploration, as data."""
        raise NotImplementedError

    def policy(self) -> NetworkPolicy:
        """Return what has been learned so far as a policy, its weights in half precision.

        Training goes on with those in single precision; whoever plays, scores or stores the policy
        has the rounded ones.
        """
        return NetworkPolicy(self.network().rounded(), self.facts())

    def save(self) -> dict[str, np.ndarray]:
        """Return everything that training needs to go on, at any step, as arrays."""
        origin = np.frombuffer(self._origin().encode(), np.uint8).copy()
        return {"origin": origin, "steps": np.array(self.steps), **save_parts(self._whole())}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from a saved state; ``ValueError`` if it is one of another training."""
        learner, parts = f"{self.name!r} on {self._rows.engine.spec.id}", self._whole()
        counted = {"steps": np.array(self.steps)}
        check_saved({**counted, **parts}, arrays, self._origin(), learner)
        load_parts(parts, arrays)
        self.steps = int(arrays["steps"])

    def _whole(self) -> dict[str, Part]:
        """Return all parts."""
        return {"numbers": self._numbers, "game": self._rows, **self.parts()}

    def _origin(self) -> str:
        """Return which training this is: learner, game, seed and hyperparameters."""
        engine = self._rows.engine
        settings = ", ".join(f"{k}={v!r}" for k, v in settings_of(self._params).items())
        game, kind = f"{engine.spec.id} {engine.parameters}", type(self._params).__name__
        return f"{self.name} on {game}, seed {self.seed}, with {kind}({settings})"

    def facts(self) -> dict[str, Any]:
        """Return the facts of a policy of this training; see ``TrainedPolicy``."""
        return {
            "environment": self._rows.engine.spec.id,
            "learner": self.name,
            "seed": self.seed,
            "steps": self.steps,
            "hyperparameters": settings_of(self._params),
        }


def _means(reports: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every name over the reports that have it."""
    values: dict[str, list[float]] = {}
    for report in reports:
        for name, value in report.items():
            values.setdefault(name, []).append(value)
    return {name: float(np.mean(numbers)) for name, numbers in values.items()}


class RewardScale:
    """Divides rewards by the running standard deviation of their discounted sums."""

    def __init__(self, rows: int, gamma: float) -> None:
        self._gamma = gamma
        self._sums = np.zeros(rows)
        self._moments = np.zeros(3)  # count, mean, sum of squared differences from it

    def __call__(self, rewards: np.ndarray, done: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Add the rewards of a step and return them scaled, (rows,) float32; see ``Transition``."""
        self._sums = self._gamma * self._sums + rewards
        self._add(self._sums[valid])
        self._sums[done] = 0.0
        scaled: np.ndarray = rewards / np.float32(self.deviation)
        return scaled

    @property
    def deviation(self) -> float:
        """Divisor of rewards; 1 until two different sums have been seen."""
        count, _, squares = self._moments
        return float(np.sqrt(squares / count)) if squares > 0.0 else 1.0

    def parts(self) -> dict[str, Part]:
        """Return the sums and their moments."""
        return {"sums": self._sums, "moments": self._moments}

    def _add(self, values: np.ndarray) -> None:
        """Merge the moments of ``values`` into the running ones (Chan, Golub & LeVeque 1979)."""
        if not len(values):
            return
        count, mean = self._moments[:2]
        total, apart = count + len(values), values.mean() - mean
        self._moments[0] = total
        self._moments[1] += apart * len(values) / total
        self._moments[2] += ((values - values.mean()) ** 2).sum()
        self._moments[2] += apart**2 * count * len(values) / total
