"""PettingZoo's AEC interface: agents act one after the other, the game moves once per round."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from pettingzoo import AECEnv as PettingZooAECEnv
from pettingzoo.utils.env import AECIterable
from pettingzoo.utils.env_logger import EnvLogger

from coopbench_envs.shells.named_agents import NamedAgents

__all__ = ["AECEnv"]

_AFTER_RESET = frozenset(
    ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos", "num_agents")
)


class AECEnv(NamedAgents, PettingZooAECEnv[str, np.ndarray, Any]):
    """One game in PettingZoo's agent-environment cycle.

    In a round every living agent gives its action in turn; the last one plays the step of the
    Parallel environment with the same parameters, and what agents see and earn is that step's.
    Agents that are done then act first, with ``None``, and leave. The order of calls is enforced as
    PettingZoo's ``OrderEnforcingWrapper`` does, with its messages. ``get_state`` and ``state`` are
    those after the last full round: actions of the present one are not in them.
    """

    agent_selection: str  # whose turn it is

    def _set_up(self) -> None:
        self._has_reset = self._has_moved = False
        self._order: list[str] = []  # the agents that act in this round
        self._turn = 0  # the number of them that have acted

    def __getattr__(self, name: str) -> Any:
        """Refuse what there is only after ``reset``, in PettingZoo's words."""
        if name in _AFTER_RESET:
            raise AttributeError(f"{name} cannot be accessed before reset")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode; seeds and ``options["state"]`` as in the Gymnasium environment."""
        roster = self._roster
        roster.begin(seed, options)
        self._has_reset = self._has_moved = True
        self._begin_round()
        self.agents = self._order.copy()
        zeros: dict[str, float] = dict.fromkeys(self.agents, 0)
        self.rewards, self._cumulative_rewards = zeros, zeros.copy()
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = roster.infos

    def step(self, action: Any) -> None:
        """Take the action of ``agent_selection``; ``None`` from an agent that is done.

        Raises ``ValueError`` for an action of the wrong shape or that is not finite, and for one of
        an agent that is done; the turn stays with the agent.
        """
        if not self._has_reset:
            EnvLogger.error_step_before_reset()
        self._has_moved = True
        if not self.agents:
            EnvLogger.warn_step_after_terminated_truncated()
            return
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        roster = self._roster
        roster.put(agent, action)
        roster.check_finite(agent)
        if self._turn + 1 == len(self._order):
            self._play()
            return
        if self._turn == 0:
            self.rewards = dict.fromkeys(self.rewards, 0)
        self._turn += 1
        self.agent_selection = self._order[self._turn]

    def _play(self) -> None:
        """Play the round's step and begin the next round; who is done acts first in it."""
        roster, acted = self._roster, self._order
        roster.play()
        self.rewards, self.infos = roster.rewards, roster.infos
        self.terminations, self.truncations = roster.terminations, roster.truncations
        self._cumulative_rewards = self.rewards.copy()
        live = roster.live
        if live:
            self._begin_round()
        if len(live) < len(acted):
            self.agents = live + sorted(set(acted) - set(live))
            self._deads_step_first()

    def _begin_round(self) -> None:
        self._order = self._roster.live  # of which there is a new list when it changes
        self._turn = 0
        # Nobody acts in an episode that begins with the state of its end.
        self.agent_selection = (self._order or self._roster.names)[0]

    def observe(self, agent: str) -> np.ndarray:
        """Return what ``agent`` has seen after the last full round, a fresh copy."""
        if not self._has_reset:
            EnvLogger.error_observe_before_reset()
        return self._roster.observation(agent)

    def last(
        self, observe: bool = True
    ) -> tuple[np.ndarray | None, float, bool, bool, dict[str, Any]]:
        """Return observation, cumulative reward, flags and info of ``agent_selection``."""
        agent = self.agent_selection  # which there is after a reset alone
        return (
            self._roster.observation(agent) if observe else None,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self.infos[agent],
        )

    def agent_iter(self, max_iter: int = 2**63) -> "AgentIterable":
        """Yield the agent that acts next, at most ``max_iter`` times; ``step`` in between."""
        if not self._has_reset:
            EnvLogger.error_agent_iter_before_reset()
        return AgentIterable(self, max_iter)

    def turns(self, most: int) -> Iterator[str]:
        """Yield the agent that acts next until all have left; assert that there were steps."""
        while self.agents and most > 0:
            if not self._has_moved:  # PettingZoo asserts it, which Python leaves out with -O
                raise AssertionError("need to call step() or reset() in a loop over `agent_iter`")
            self._has_moved = False
            most -= 1
            yield self.agent_selection

    def state(self) -> np.ndarray:
        """Return the global state after the last complete round, as one float32 vector."""
        if not self._has_reset:
            EnvLogger.error_state_before_reset()
        return super().state()

    def render(self) -> Any:
        """Return or print the state after the last complete round, as in ``ParallelEnv``."""
        if not self._has_reset:
            EnvLogger.error_render_before_reset()
        return super().render()


class AgentIterable(AECIterable[str, np.ndarray, Any]):
    """What ``agent_iter`` returns: every loop over it goes on from the present turn."""

    def __iter__(self) -> Iterator[str]:
        turns: Iterator[str] = self.env.turns(self.max_iter)
        return turns
