"""Throughput of battles on one core, beside the programs whose games they are.

Run ``python benchmarks/skirmish.py [--peers PYTHON] [MAP ...]``. PYTHON is an interpreter that can
import ``smaclite`` (a checkout of uoe-agents/smaclite with rtree, scikit-learn and pygame) or
``jaxmarl``, or both; it measures them in the same run, in turns with this package.

Actions are drawn among the legal ones; observations and masks are written. Times are those of the
processor, without the drawing of actions where this is Python; the best of several rounds is
printed, because other programs can only slow a round down.
"""

import argparse
import json
import os
import subprocess
import sys
import time

ROUNDS, SECONDS = 5, 0.4
LANES, TICKS = 64, 8
ONE_CORE = {
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
MAPS = ("3m", "2s3z", "8m", "MMM2", "corridor", "2c_vs_64zg", "27m_vs_30m")


def coopbench_rate(name):
    """Return environment steps per second and unit-ticks per second of Skirmish-v0."""
    import numpy as np

    from coopbench_envs import Engine

    engine = Engine("coopbench/Skirmish-v0", LANES, map=name)
    engine.reset(np.arange(LANES))
    draws, best = np.random.default_rng(0), 0.0
    for _ in range(ROUNDS + 1):
        spent, steps = 0.0, 0
        while spent < SECONDS:
            masks = engine.control.masks
            actions = (draws.random(masks.shape) * masks).argmax(axis=2)
            begin = time.process_time()
            engine.step(actions)
            spent += time.process_time() - begin
            steps += LANES
        best = max(best, steps / spent)
    return {"steps": best, "unit_ticks": best * TICKS * engine.state.x.shape[1]}


def smaclite_rate(name):
    """Return environment steps per second of SMAClite with its NumPy back-end."""
    import gymnasium
    import numpy as np
    import smaclite

    env = gymnasium.make(f"smaclite/{name}-v0", disable_env_checker=True).unwrapped
    draws, best = np.random.default_rng(0), 0.0
    env.reset(seed=0)
    for _ in range(ROUNDS):
        spent, steps = 0.0, 0
        while spent < 2 * SECONDS:
            masks = np.asarray(env.get_avail_actions())
            actions = (draws.random(masks.shape) * masks).argmax(axis=1).tolist()
            begin = time.process_time()
            *_, done, _, _ = env.step(actions)
            if done:
                env.reset()
            spent += time.process_time() - begin
            steps += 1
        best = max(best, steps / spent)
    return {"steps": best}


def smax_rate(name):
    """Return environment steps per second of SMAX on the processor, 100 environments at once."""
    import jax
    from jaxmarl import make
    from jaxmarl.environments.smax import map_name_to_scenario

    env = make("HeuristicEnemySMAX", scenario=map_name_to_scenario(name))
    lanes, length, best = 100, 30, 0.0

    def step(carry, key):
        obs, state = carry
        masks = jax.vmap(env.get_avail_actions)(state)
        keys = jax.random.split(key, len(env.agents) + 1)
        actions = {
            agent: jax.random.categorical(keys[k], (masks[agent] - 1) * 1e9, axis=-1)
            for k, agent in enumerate(env.agents)
        }
        each = jax.random.split(keys[-1], lanes)
        obs, state, rewards, _, _ = jax.vmap(env.step)(each, state, actions)
        return (obs, state), rewards[env.agents[0]]

    @jax.jit
    def play(carry, key):
        return jax.lax.scan(step, carry, jax.random.split(key, length))

    carry = jax.vmap(env.reset)(jax.random.split(jax.random.PRNGKey(0), lanes))
    for _ in range(2):  # compiled twice: weak types
        carry, _ = jax.block_until_ready(play(carry, jax.random.PRNGKey(1)))
    for k in range(ROUNDS):
        begin = time.process_time()
        carry, _ = jax.block_until_ready(play(carry, jax.random.PRNGKey(2 + k)))
        best = max(best, lanes * length / (time.process_time() - begin))
    return {"steps": best}


PEERS = {"smaclite": smaclite_rate, "smax": smax_rate}


def peer_rate(python, peer, name):
    """Return the rate of a peer, measured by another interpreter; None where it has no such map."""
    command = [python, __file__, "--peer", peer, name]
    settings = {"capture_output": True, "text": True, "timeout": 600, "env": os.environ | ONE_CORE}
    done = subprocess.run(command, check=False, **settings)
    if done.returncode:
        print(f"{peer} on {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])["steps"]


def main():
    """Print a table in Markdown, one row for each map."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", help="interpreter that has smaclite or jaxmarl")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("maps", nargs="*", default=MAPS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(PEERS[options.peer](options.maps[0])))
        return
    names = tuple(PEERS) if options.peers else ()
    heads = ["map", "Skirmish-v0, steps/s", "unit-ticks/s", *(f"{name}, steps/s" for name in names)]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for name in options.maps:
        mine = coopbench_rate(name)
        cells = [name, f"{mine['steps']:,.0f}", f"{mine['unit_ticks'] / 1e6:.1f} M"]
        for peer in names:
            rate = peer_rate(options.peers, peer, name)
            cells.append("-" if rate is None else f"{rate:,.0f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
