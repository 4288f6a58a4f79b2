"""Throughput of Routing on one core: steps with observations, the cost of an agent, resets.

Run ``python benchmarks/routing.py [--record] [--lanes N]``. Actions are uniform in [-1, 1]. Times
are those of the processor; the best of several rounds is printed, because other programs can only
slow a round down.
"""

import time

import numpy as np
import speed

from coopbench_envs import Engine

ROUNDS, SECONDS, PLANNED = 5, 0.3, 64
GRID = "random_grid"
MAZE = {"num_maps": 10, "height": 21, "width": 21, "room_min_size": 4, "room_max_size": 9}
SETTINGS = (
    *((GRID, agents, {"obstacle_density": d}) for agents in (8, 32) for d in (0.0, 0.05, 0.15)),
    ("labmaze_grid", 32, {**MAZE, "extra_connection_probability": 0.4}),
    ("caves_cont", 256, {"num_rows": 128, "num_cols": 128, "agent_rad_range": (0.03, 0.03)}),
    ("movingai", 256, {}),
)
SIZES = (8, 16, 32, 64, 128, 256, 512)
VERSIONS = ("coopbench/Routing-v0", "coopbench/Routing-v1")


def best_rate(work, amount):
    """Return the largest ``amount`` per second of processor time over several rounds."""
    best = 0.0
    for _ in range(ROUNDS):
        times, begin = 0, time.process_time()
        while time.process_time() - begin < SECONDS:
            work()
            times += 1
        best = max(best, amount * times / (time.process_time() - begin))
    return best


def begun(env_id, lanes, **parameters):
    """Return an engine at the start of its episodes."""
    engine = Engine(env_id, lanes, **parameters)
    engine.reset(np.arange(lanes))
    return engine


def step_rate(engine):
    """Environment steps per second, observations included."""
    shape = (PLANNED, *engine.actions.shape)
    planned = np.random.default_rng(0).uniform(-1, 1, shape)

    def work():
        for actions in planned:
            engine.step(actions)

    return best_rate(work, engine.lanes * PLANNED)


def reset_rate(engine):
    """Instances per second, each with different seeds."""
    return best_rate(engine.reset, engine.lanes)


def instances(lanes):
    """Yield the rows of the table of maps: steps and resets per second."""
    for name, agents, map_params in SETTINGS:
        density = map_params.get("obstacle_density")
        what = (
            f"`{name}`" if density is None else f"`{name}`, {round(400 * density)} obstacle cells"
        )
        for env_id in VERSIONS:
            values = {"num_agents": agents, "map": name, "map_params": map_params}
            engine = begun(env_id, lanes, **values)
            version = env_id.partition("/")[2]
            yield [version, f"{what}, {agents} agents", step_rate(engine), reset_rate(engine)]


def agent_costs(lanes):
    """Yield the rows of the table of sizes: nanoseconds of each version per agent and step.

    All worlds have the same density, 50 cells to an agent, 5 % of them obstacles.
    """
    for agents in SIZES:
        side = round((50 * agents) ** 0.5)
        world = {"num_rows": side, "num_cols": side, "obstacle_density": 0.05}
        values = {"num_agents": agents, "map_params": world}
        rates = (step_rate(begun(env_id, lanes, **values)) for env_id in VERSIONS)
        yield [str(agents), *(1e9 / (agents * rate) for rate in rates)]


def main():
    parser = speed.parser(__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=64)
    options = parser.parse_args()
    heads = {
        "routing": ("Environment", "Map", "Steps/s", "Resets/s"),
        "agents": ("Agents", "Routing-v0, ns", "Routing-v1, ns"),
    }
    for (name, head), rows in zip(heads.items(), (instances, agent_costs), strict=True):
        machine = speed.machine()
        table = speed.Table(head, list(rows(options.lanes)), machine)
        speed.finish(name, table, options.record)


if __name__ == "__main__":
    main()
