"""Instances of rail-standard: drawn networks, each with a plan that brings all trains home in time.

    python -m studies.rail.standard [TASK ...]

Networks are drawn by the generator of Rail-v1 from seeds apart from all others. The shipped planner
``prioritised`` plays each without malfunctions. A network counts if all trains arrive within its
limit; the actions played are its plan. A task's instances become a file in
``protocols/instances.zip``, and its checksum is put into ``protocols/rail-standard.toml``. Networks
are the same for tasks that differ in malfunctions alone. Prints per task the networks tried,
seconds of processor time, and means of the makespan, the delays and the limit.
"""

import argparse
import hashlib
import re
import time
from pathlib import Path

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.protocol.loading import load_protocol
from coopbench_envs.arrays import pack
from coopbench_envs.engine import Engine
from coopbench_envs.rail.lines import FAR
from coopbench_envs.rail.trains import ARRIVED
from studies import archive

PROTOCOLS = Path(__file__).resolve().parents[2] / "protocols"
INSTANCES = 100
FIRST_SEED = 7_000_000
LANES = 20
PLANNER = "prioritised:effort={effort}"
EFFORTS = (20_000, 1_000_000)  # the second for networks on which the first is not enough


def play(parameters, seeds, effort):
    """Return the engine before the first step, as arrays, the engine at the end, and actions."""
    engine = Engine(
        "coopbench/Rail-v1",
        len(seeds),
        **parameters | {"malfunction_rate": 0.0, "observation": "none"},
    )
    match = Match(engine, [Player(PLANNER.format(effort=effort), Game.of(engine))])
    match.begin(np.array(seeds, np.uint64))
    actions = [played.copy() for played in match.steps()]
    return engine, np.stack(actions, axis=1).astype(np.int8)


def drawn(parameters, seed):
    """Return the arrays of the instance that a seed draws."""
    engine = Engine("coopbench/Rail-v1", 1, **parameters | {"observation": "none"})
    engine.reset(np.array([seed], np.uint64))
    c, s = engine.constants, engine.state

    def position(cells):
        return np.stack([cells // c.map.columns - 1, cells % c.map.columns - 1], axis=-1)

    grid = s.rail[0].reshape(c.map.height + 2, c.map.width + 2)[1:-1, 1:-1]
    speed = np.stack([s.top_speed[0], np.full(c.num_agents, c.drive.unit)], axis=-1)
    divisor = np.gcd(*speed.T)
    strikes = np.argwhere(s.strike_time[0] < FAR)
    rows = [(s.strike_time[0, a, k], a, s.strike_length[0, a, k]) for a, k in strikes.tolist()]
    return {
        "grid": grid.copy(),
        "init_pos": position(s.start[0] >> 2),
        "init_dir": s.start[0] & 3,
        "target": position(s.target[0]),
        "target_dirs": (s.target_headings[0][:, None] >> np.arange(4)) & 1,
        "max_speed": speed // divisor[:, None],
        "earliest_departure": s.departure[0].copy(),
        "latest_arrival": s.due[0].copy(),
        "max_episode_steps": np.asarray(s.limit[0]),
        "strikes": np.array(rows, np.int64).reshape(-1, 3),
    }


def planned(parameters):
    """Return seeds of networks with their plans, and how many networks were tried."""
    plans, first = {}, FIRST_SEED
    while len(plans) < INSTANCES:
        seeds = list(range(first, first + LANES))
        first += LANES
        for effort in EFFORTS:
            engine, actions = play(parameters, seeds, effort)
            arrival, due = engine.state.arrival, engine.state.due
            complete = (engine.state.status == ARRIVED).all(axis=1)
            for k in np.flatnonzero(complete):
                makespan = int(arrival[k].max())
                delay = int(np.maximum(arrival[k] - due[k], 0).sum())
                plans[seeds[k]] = actions[k, :makespan], makespan, delay
            seeds = [seed for seed in seeds if seed not in plans]
            if not seeds:
                break
    last = sorted(plans)[INSTANCES - 1]
    return {seed: plans[seed] for seed in sorted(plans)[:INSTANCES]}, last - FIRST_SEED + 1


def padded(arrays, empty):
    """Stack arrays of different lengths, with ``empty`` behind the shorter ones."""
    longest = max(len(a) for a in arrays)
    return np.stack(
        [np.concatenate([a, np.full((longest - len(a), *a.shape[1:]), empty)]) for a in arrays]
    )


def small(values):
    """Return whole numbers in the smallest type that holds them."""
    types = (np.int8, np.uint8, np.int16, np.uint16, np.int32)
    low, high = values.min(initial=0), values.max(initial=0)
    return values.astype(
        next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
    )


def freeze(parameters, plans):
    """Return the file of a task's instances."""
    rows = [drawn(parameters, seed) for seed in plans]
    out = {name: np.stack([row[name] for row in rows]) for name in rows[0] if name != "strikes"}
    out["strikes"] = padded([row["strikes"] for row in rows], -1)
    out["plan"] = padded([plan for plan, _, _ in plans.values()], 0)
    out["plan_makespan"] = np.array([makespan for _, makespan, _ in plans.values()])
    out["plan_delay"] = np.array([delay for _, _, delay in plans.values()])
    return pack({name: small(values) for name, values in out.items()}), out


def main():
    """Write the instances of the tasks named, of all by default."""
    parser = argparse.ArgumentParser(description="Write the instances of rail-standard.")
    parser.add_argument("task", nargs="*")
    options = parser.parse_args()
    file, known = PROTOCOLS / "rail-standard.toml", {}
    for task in load_protocol("rail-standard").task:
        if options.task and task.id not in options.task:
            continue
        begun = time.process_time()
        same = tuple(sorted((k, str(v)) for k, v in task.parameters.items() if "malf" not in k))
        if same not in known:
            known[same] = planned(task.parameters)
        plans, tried = known[same]
        content, arrays = freeze(task.parameters, plans)
        archive.put(task.instances.file, content)
        digest = hashlib.sha256(content).hexdigest()
        pattern = rf'(file = "{task.instances.file}", sha256 = ")[^"]*'
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(pattern, rf"\g<1>{digest}", text), encoding="utf-8")
        means = ", ".join(
            f"{name} {arrays[name].mean():.1f}"
            for name in ("plan_makespan", "plan_delay", "max_episode_steps")
        )
        print(
            f"{task.id}: {len(content):,} bytes, {tried} networks tried, "
            f"{time.process_time() - begun:.0f} s; {means}",
            flush=True,
        )


if __name__ == "__main__":
    main()
