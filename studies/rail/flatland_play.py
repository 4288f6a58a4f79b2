"""Plays environments of the exporter in flatland-rl and records them; runs in its interpreter.

``python flatland_play.py FOLDER``: writes what the exporter writes, with pickles, and beside each a
recording of an episode under random actions. Those of "again" begin after another episode.
"""

import sys
from pathlib import Path

import export_flatland as export
import numpy as np
from flatland.envs.observations import TreeObsForRailEnv
from flatland.envs.predictions import ShortestPathPredictorForRailEnv
from flatland.envs.rail_env_action import RailEnvActions

# Shares of the five actions: any, mostly moving, and all forward.
MIXES = {"random": (0.2,) * 5, "moving": (0.04, 0.2, 0.5, 0.2, 0.06), "forward": (0, 0, 1, 0, 0)}


def play(env, mix, seed):
    """Return actions and what became of them, a row for every step."""
    random, trains = np.random.RandomState(seed), len(env.agents)
    rows = {name: [] for name in ("actions", "state", "pos", "dir", "broken", "rewards", "speed")}
    done = False
    while not done:
        actions = random.choice(5, trains, p=MIXES[mix])
        _, rewards, dones, info = env.step(
            {a: RailEnvActions(int(k)) for a, k in enumerate(actions)}
        )
        places = [a.current_configuration or ((-1, -1), -1) for a in env.agents]
        rows["actions"].append(actions)
        rows["state"].append([int(a.state.value) for a in env.agents])
        rows["pos"].append([p for p, _ in places])
        rows["dir"].append([int(d) for _, d in places])
        rows["broken"].append([info["malfunction"][a] for a in range(trains)])
        rows["rewards"].append([rewards[a] for a in range(trains)])
        rows["speed"].append([float(info["speed"][a]) for a in range(trains)])
        done = dones["__all__"]
    return {name: np.array(values) for name, values in rows.items()}


def main(folder):
    layouts = {
        "a": export.Layout(6, 28, 27, 2, 30, export.FOUR_SPEEDS, True),
        "b": export.Layout(10, 30, 26, 2, 60, export.ONE_SPEED, True),
        "c": export.Layout(8, 25, 25, 2, 40, export.ONE_SPEED, False),
    }
    layouts["again"] = layouts["a"]
    for seed, (name, layout) in enumerate(layouts.items()):
        for k, mix in enumerate(MIXES):
            env = export.draw(layout, 7 + seed)
            if name == "again":
                play(env, "forward", 9)
                env.obs_builder = TreeObsForRailEnv(2, ShortestPathPredictorForRailEnv())
                env.reset()
            if k == 0:
                export.write(env, folder / f"{name}.npz", pickles=True)
            np.savez_compressed(folder / f"{name}.{mix}.played", **play(env, mix, k))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
