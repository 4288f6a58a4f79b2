"""Probe: steps of CAMAR on the processor, 64 environments: ``python play_camar.py AGENTS DENSITY``.

The settings are the defaults of Routing; the time that jax takes to compile is not counted.
"""

import sys

import jax
from camar import camar_v0
from stopwatch import Stopwatch

LANES, LENGTH = 64, 4
AGENTS, DENSITY = int(sys.argv[1]), float(sys.argv[2])
env = camar_v0(
    map_generator="random_grid",
    map_kwargs={"num_agents": AGENTS, "obstacle_density": DENSITY},
    frameskip=15,
    window=0.3,
    max_obs=3,
    max_steps=1000,
    pos_shaping_factor=1.0,
)


def step(state, key):
    """Draw actions and play one step in all environments."""
    keys = jax.random.split(key, LANES + 1)
    actions = jax.random.uniform(keys[0], (LANES, AGENTS, 2), minval=-1.0, maxval=1.0)
    obs, state, rewards, _, _ = jax.vmap(env.step)(keys[1:], state, actions)
    return state, (obs.sum(), rewards.sum())


@jax.jit
def play(state, key):
    """Play ``LENGTH`` steps."""
    return jax.lax.scan(step, state, jax.random.split(key, LENGTH))


_, state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(0), LANES))
for _ in range(2):  # the second call may compile for other types of the state
    state, _ = jax.block_until_ready(play(state, jax.random.PRNGKey(1)))
watch = Stopwatch()
while watch.running:
    with watch:
        state, _ = jax.block_until_ready(play(state, jax.random.PRNGKey(2 + watch.steps)))
    watch.steps += LANES * LENGTH
watch.report("camar", "jax")
