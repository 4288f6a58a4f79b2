"""Probe: steps of SMAX of jaxmarl on the processor, 100 environments: ``python play_smax.py MAP``.

The time that jax takes to compile is not counted.
"""

import sys

import jax
from jaxmarl import make
from jaxmarl.environments.smax import map_name_to_scenario
from stopwatch import Stopwatch

LANES, LENGTH = 100, 30
env = make("HeuristicEnemySMAX", scenario=map_name_to_scenario(sys.argv[1]))


def step(carry, key):
    """Draw legal actions and play one step in all environments."""
    _, state = carry
    masks = jax.vmap(env.get_avail_actions)(state)
    keys = jax.random.split(key, len(env.agents) + 1)
    actions = {
        agent: jax.random.categorical(keys[k], (masks[agent] - 1) * 1e9, axis=-1)
        for k, agent in enumerate(env.agents)
    }
    lane_keys = jax.random.split(keys[-1], LANES)
    obs, state, rewards, _, _ = jax.vmap(env.step)(lane_keys, state, actions)
    return (obs, state), rewards[env.agents[0]]


@jax.jit
def play(carry, key):
    """Play ``LENGTH`` steps."""
    return jax.lax.scan(step, carry, jax.random.split(key, LENGTH))


carry = jax.vmap(env.reset)(jax.random.split(jax.random.PRNGKey(0), LANES))
for _ in range(2):  # compiled twice: weak types
    carry, _ = jax.block_until_ready(play(carry, jax.random.PRNGKey(1)))
watch = Stopwatch()
while watch.running:
    with watch:
        carry, _ = jax.block_until_ready(play(carry, jax.random.PRNGKey(2 + watch.steps)))
    watch.steps += LANES * LENGTH
watch.report("jaxmarl", "jax")
