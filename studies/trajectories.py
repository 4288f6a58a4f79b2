"""Record the seeded trajectories of new environments.

    python -m studies.trajectories

adds an entry to tests/golden/trajectories.json for every registered environment that has none.
Entries that exist stay as they are: a trajectory that changes needs a new id.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench_envs import Engine

FILE = Path(__file__).parents[1] / "tests" / "golden" / "trajectories.json"
SEEDS, STEPS = (0, 7, 2**63), 5


def trajectory(env_id: str) -> dict[str, Any]:
    """Return random state and rewards of the first agents after a few steps."""
    engine = Engine(env_id, len(SEEDS))
    engine.reset(np.array(SEEDS, np.uint64))
    for t in range(STEPS):
        if engine.discrete:
            actions = np.full(engine.actions.shape, t % engine.action_spaces[0].n)
        else:
            low = np.stack([space.low for space in engine.action_spaces])
            high = np.stack([space.high for space in engine.action_spaces])
            actions = np.broadcast_to(low + (high - low) * (0.45 + 0.02 * t), engine.actions.shape)
        engine.step(actions)
    control = engine.control
    return {
        "rng": [str(state) for state in control.rng],
        "rewards": control.rewards[:, :4].tolist(),
        "observed": control.obs.astype(np.float64).sum(axis=(1, 2)).tolist(),
    }


def written(entries: dict[str, Any]) -> str:
    """Write the file: one line for each environment, sorted by id."""
    lines = [f"  {json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Add what is missing and print the ids that were added."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    for env_id in coopbench_envs.ids():
        if env_id not in entries:
            entries[env_id] = trajectory(env_id)
            print(f"recorded {env_id}")
    FILE.write_text(written(entries), encoding="utf-8")


if __name__ == "__main__":
    main()
