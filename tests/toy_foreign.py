"""Toy environments of other packages: games of PettingZoo and Gymnasium that are nobody's."""

import random

import gymnasium as gym
import numpy as np
import pettingzoo
from gymnasium import spaces


class Lamps(pettingzoo.ParallelEnv):
    """Three agents guess a hidden number; agent ``c_0`` leaves after two steps, ``pay`` per hit."""

    metadata = {"name": "lamps_v0"}  # noqa: RUF012

    def __init__(self, max_steps=6, pay=1.0, chance=False):
        self.possible_agents = ["a_0", "a_1", "c_0"]
        self.max_steps, self.pay, self._chance = max_steps, pay, chance

    def observation_space(self, agent):
        return spaces.Box(-10.0, 10.0, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "a_0" else 2)

    def reset(self, seed=None, options=None):
        self._random = np.random.default_rng(seed)
        self.agents, self._time, self._hits = list(self.possible_agents), 0, 0
        return self._observed(), {agent: {} for agent in self.agents}

    def _observed(self):
        self._number = int(self._random.integers(2))
        noise = random.random() if self._chance else 0.0
        return {a: np.array([self._number, noise], np.float32) for a in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), "actions of exactly those who take part"
        hits = {a: float(actions[a] == self._number) for a in self.agents}
        self._hits += int(sum(hits.values()))
        self._time += 1
        acted = self.agents
        left = [a for a in acted if a == "c_0" and self._time >= 2]
        late = self._time >= self.max_steps
        infos = {a: {"hit": hits[a], "total": {"hits": self._hits}, "text": "no"} for a in acted}
        rewards = {a: self.pay * hits[a] for a in acted}
        observations = self._observed()
        terminated = {a: a in left for a in acted}
        truncated = dict.fromkeys(acted, late)
        self.agents = [] if late else [a for a in acted if a not in left]
        return observations, rewards, terminated, truncated, infos


class Mixed(pettingzoo.ParallelEnv):
    """Two agents with different spaces; the score is what they agree on."""

    metadata = {"name": "mixed_v0"}  # noqa: RUF012
    possible_agents = ("left_0", "right_0")

    def observation_space(self, agent):
        plain = spaces.Box(0.0, 1.0, (1,))
        return plain if agent == "left_0" else spaces.Dict({"x": plain, "n": spaces.Discrete(5)})

    def action_space(self, agent):
        parts = (spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)))
        return spaces.Discrete(4) if agent == "left_0" else spaces.Tuple(parts)

    def reset(self, seed=None, options=None):
        self._random, self._time = np.random.default_rng(seed), 0
        self.agents = list(self.possible_agents)
        return self._observed(), {agent: {} for agent in self.agents}

    def _observed(self):
        x = self._random.random(1).astype(np.float32)
        return {"left_0": x, "right_0": {"x": x, "n": self._time}}

    def step(self, actions):
        number, (choice, vector) = actions["left_0"], actions["right_0"]
        assert self.action_space("right_0").contains((choice, vector))
        self._time += 1
        reward = float(number == choice) + float(vector[0])
        over = self._time >= 3
        acted, self.agents = self.agents, [] if over else self.agents
        flags = dict.fromkeys(acted, over)
        return (
            self._observed(),
            dict.fromkeys(acted, reward),
            flags,
            dict.fromkeys(acted, False),
            {agent: {} for agent in acted},
        )


class Sliders(pettingzoo.ParallelEnv):
    """Two agents move sliders, one and two of them; each is paid the sum of its own."""

    metadata = {"name": "sliders_v0"}  # noqa: RUF012
    possible_agents = ("left_0", "right_0")

    def observation_space(self, agent):
        return spaces.Box(0.0, 1.0, (1,))

    def action_space(self, agent):
        count = 1 if agent == "left_0" else 2
        return spaces.Box(np.zeros(count, np.float32), np.full(count, count, np.float32))

    def reset(self, seed=None, options=None):
        self.agents, self._time = list(self.possible_agents), 0
        return self._observed(), {agent: {} for agent in self.agents}

    def _observed(self):
        return {agent: np.full(1, self._time / 4, np.float32) for agent in self.agents}

    def step(self, actions):
        assert all(self.action_space(agent).contains(move) for agent, move in actions.items())
        self._time += 1
        acted, rewards = self.agents, {agent: float(move.sum()) for agent, move in actions.items()}
        observations, over = self._observed(), dict.fromkeys(acted, self._time >= 4)
        self.agents = [] if self._time >= 4 else acted
        return (
            observations,
            rewards,
            dict.fromkeys(acted, False),
            over,
            {agent: {} for agent in acted},
        )


class Leaving(Sliders):
    """Two single sliders; the left one is truncated after two steps, the right one goes on."""

    def action_space(self, agent):
        return spaces.Box(0.0, 1.0, (1,))

    def step(self, actions):
        shown, rewards, terminated, truncated, infos = super().step(actions)
        if self._time == 2:
            truncated["left_0"] = True
            self.agents = ["right_0"]
        return shown, rewards, terminated, truncated, infos


class Masked(gym.Env):
    """One agent chooses among the legal ones of five choices, forever."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(0.0, 1.0, (2, 2)), "action_mask": spaces.MultiBinary(5)}
    )
    action_space = spaces.Discrete(5, start=1)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self._observed(), {}

    def _observed(self):
        self._mask = np.zeros(5, np.int8)
        self._mask[self.np_random.integers(5)] = 1
        return {"observation": np.full((2, 2), 0.5, np.float32), "action_mask": self._mask}

    def step(self, action):
        legal = bool(self._mask[action - 1])
        return self._observed(), float(legal), False, False, {"legal": legal}


class Faulty(gym.Env):
    """Does something that Gymnasium does not define."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, fault=""):
        self._fault, self._time = fault, 0

    def reset(self, seed=None, options=None):
        self._time = 0
        observation = np.zeros(2, np.float32)
        return observation if self._fault == "old reset" else (observation, {})

    def step(self, action):
        self._time += 1
        reward = {"array": np.ones(1), "none": None, "text": "1"}.get(self._fault, 1.0)
        over = self._time >= 4
        observation = np.zeros(1 if self._fault == "short" else 2, np.float32)
        if self._fault == "old step":
            return observation, reward, over, {}
        return observation, reward, over, False, {}


class Pair(Lamps):
    """The same lamps, but what is returned by name is a list, or observations stand alone."""

    def __init__(self, fault):
        super().__init__()
        self._fault = fault

    def reset(self, seed=None, options=None):
        observations, infos = super().reset(seed, options)
        return observations if self._fault == "alone" else (list(observations.values()), infos)


def parallel_env(**keywords):
    return Lamps(**keywords)


def nothing():
    return object()


def turns():
    """Return an environment in which agents take turns, made of the parallel one."""
    env = pettingzoo.utils.conversions.parallel_to_aec(Lamps())
    env.metadata["is_parallelizable"] = True
    return env


def only_turns():
    env = pettingzoo.utils.conversions.parallel_to_aec(Lamps())
    env.metadata["is_parallelizable"] = False
    return env
