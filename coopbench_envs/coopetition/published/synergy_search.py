"""SynergySearch: two firms invest in a venture whose value is hidden and drawn per episode.

The best investment depends on the weight of the synergy, which is not observed. Page:
docs/environments/synergy_search.md.
"""

import math
from typing import Annotated, Any, NamedTuple

from gymnasium.spaces import Box

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.published import dynamics, key_metrics
from coopbench_envs.coopetition.trajectories import EPISODE
from coopbench_envs.core import kernel, uniform
from coopbench_envs.layouts import Part
from coopbench_envs.parameters import one_of, span
from coopbench_envs.states import array, state

Constants = model.extended(
    dynamics.Constants,
    __name__,
    gamma_low="lower end of the hidden weight's range",
    gamma_high="upper end of the hidden weight's range",
    reveal="bool: observations and global state end with the weight",
)


def _gamma_bounds(c: Any) -> tuple[float, float]:
    return c.gamma_low, c.gamma_low + (c.gamma_high - c.gamma_low)  # rounded as draws are


State = state(
    __name__,
    dynamics.State,
    gamma=array("hidden weight of the synergy in this episode", bounds=_gamma_bounds),
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    gamma_range: Annotated[
        tuple[float, ...], span(0, 1e6, "lowest and highest weight of the synergy")
    ] = (0.20, 0.90)
    reveal_gamma_in_obs: Annotated[bool, one_of((), "append the weight to observations")] = False
    reward_type: dynamics.RewardType = "integrated"
    normalize: dynamics.Normalize = False
    reward_scale: dynamics.RewardScale = 1.0


def constants(p: Params) -> Any:
    """Return the constants of two equal firms; ``gamma`` is nan, because each episode draws it."""
    low, high = p.gamma_range
    return dynamics.make_constants(
        p,
        kind=Constants,
        endowment=[100.0, 100.0],
        baseline_share=0.40,
        dependence=0.50,
        theta=20.0,
        gamma=math.nan,
        trust_gain=0.10,
        trust_loss=0.30,
        damage_gain=0.60,
        damage_decay=0.03,
        dependence_loss=0.50,
        sensitivity=1.0,
        initial_trust=0.55,
        gamma_low=low,
        gamma_high=high,
        reveal=p.reveal_gamma_in_obs,
    )


@kernel
def reset(c, s, i, rng):
    dynamics.reset(c, s, i, rng)
    s.gamma[i] = c.gamma_low + (c.gamma_high - c.gamma_low) * uniform(rng, i)


@kernel
def produce(c, s, i, rng, actions, rewards, terminated):
    s.joint[i] = s.gamma[i] * dynamics.synergy(c, s, i)


STEP = tuple(produce if part is dynamics.produce else part for part in dynamics.STEP)


@kernel
def observe(c, s, i, obs):
    """Write the common observation and, if the task reveals it, the weight of the synergy."""
    dynamics.observe(c, s, i, obs)
    if c.reveal:
        for a in range(c.num_agents):
            obs[i, a, obs.shape[2] - 1] = s.gamma[i]


@kernel
def global_state(c, s, i, out):
    """Write the common global state and, if the task reveals it, the weight of the synergy."""
    dynamics.global_state(c, s, i, out)
    if c.reveal:
        out[i, out.shape[1] - 1] = s.gamma[i]


def layout(c: Any) -> dict[str, Part]:
    """Return the named parts of one agent's observation."""
    parts = dynamics.layout(c)
    end = parts["time"].stop
    gamma = Part(end, end + 1, meaning="weight of the synergy, drawn for each episode")
    return parts | {"gamma": gamma} if c.reveal else parts


def observation_space(c: Any, agent: int) -> Box:
    """Return the bounds of an agent's observation."""
    return _revealed(c, dynamics.observation_space(c, agent))


def global_state_space(c: Any) -> Box:
    """Return the bounds of the vector that ``global_state`` writes."""
    return _revealed(c, dynamics.global_state_space(c))


def _revealed(c: Any, space: Box) -> Box:
    if not c.reveal:
        return space
    return dynamics.appended(space, [c.gamma_low], [c.gamma_high])


SPEC = dynamics.game(
    id="coopbench/SynergySearch-v0",
    module=__name__,
    kernels=dynamics.KERNELS._replace(
        state=State,
        reset=reset,
        step=STEP,
        observe=observe,
        global_state=global_state,
    ),
    params=Params,
    constants=constants,
    agents=model.named("firm"),
    observation_space=observation_space,
    layout=layout,
    global_state_space=global_state_space,
    episode_metrics=EPISODE | key_metrics.SYNERGY,
    trace=key_metrics.synergy_trace,
)
