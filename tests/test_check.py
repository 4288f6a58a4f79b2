"""coopbench check: faults of environments, each with its place and what to do."""

import re
from pathlib import Path

import pytest

from coopbench_envs import check, registration
from coopbench_envs.check import check_environment

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "examples" / "own-environment" / "src" / "volunteers" / "environment.py"
FAULTS = {
    "box": ("Box(-1, 1,", "Box(0, 1,", "own_choice.* leaves its Box; .*saw -1, allowed 0 to 1"),
    "metric": ("measures[i, 0] = s.helped", "x = s.helped", "metric 'help_rate' is never written"),
    "index": ("s.choice[i, a] = act", "s.choice[i, a + 1] = act", "IndexError in step: index 3 is"),
    "negative": ("s.choice[i, a] = act", "s.choice[i, a - 1] = act", "it counts from the end"),
    "signature": ("observe(p, s, i, obs)", "observe(p, s, obs)", r"write observe\(c, s, i, obs\)"),
    "reward": ("rewards[i, a] = gain", "x = gain", "step does not write rewards of 'agent_0'"),
    "ends": ("terminated[i, a] = False", "pass", "step does not write terminated of 'agent_0'"),
    "observation": ("obs[i, a, b] =", "obs[i, a, 0] =", r"does not write place 1 \('others_choice"),
    "memory": (", dtype=np.int64, start=0)", ", dtype=np.int64)", "reset or prepare must write"),
    "chance": ("rewards[i, a] = gain", "rewards[i, a] = np.random.random()", "same seed and act"),
    "layout": ('"own_choice": 1', '"own_choice": 2', "'others_choices' ends at 4"),
    "actions": (
        "acting += actions",
        "actions[i, a] *= 1 - a\n        acting += actions",
        "something else with what it",
    ),
    "gap": ('"own_choice": 1', '"own_choice": 0', "no part of layout has place 2 of"),
}

# What a global state is, and what is wrong with it.
GLOBAL = {
    "none": ("out[i, a] = s.choice[i, a]", ""),
    "index": ("out[i, a] = s.choice[i, a + 5]", "IndexError in survey: index 5 is"),
    "place": ("out[i, 0] = s.choice[i, a]", "global_state does not write place 1; write out.i, 1"),
    "box": ("out[i, a] = 3 * s.choice[i, a]", "place 0 of the global state leaves its Box; it was"),
}
# Environments of other packages, and what is wrong with them.
SINGLE = """
import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete


class Env(gym.Env):
    observation_space, action_space = {box}, Discrete(2)
    total = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {{}}

    def seen(self):
        return {seen}

    def step(self, action):
        self.time, self.total = self.time + 1, self.total + 1
        return self.seen(), {reward}, False, self.time >= 9, {{}}
"""
UNIT, BYTES = "Box(0.0, 1.0, (2,), np.float32)", "Box(0, 255, (2,), np.uint8)"
SINGLES = {
    "none": (UNIT, "self.np_random.random(2).astype(np.float32)", "1.0", ""),
    "rounded": (UNIT, "self.np_random.random(2)", "1.0", ""),
    "list": (UNIT, "[0.5, 0.25]", "1.0", ""),
    "bytes": (BYTES, "np.array([300.7, 1.0])", "1.0", "observes array.*300.7.*which is not in"),
    "shares": (BYTES, "np.array([3.5, 1.0])", "1.0", "observes array.*3.5.*which is not in"),
    "beyond": (UNIT, "np.array([1.5, 0.0])", "1.0", "observes array.*1.5.*which is not in"),
    "nested": (f"gym.spaces.Dict(a={UNIT})", "{'a': self.np_random.random(2)}", "1.0", ""),
    "inside": (f"gym.spaces.Dict(a={UNIT})", "{'a': np.full(2, 1.5)}", "1.0", "which is not in"),
    "leak": (UNIT, "np.zeros(2, np.float32)", "float(self.total)", "differs after another one"),
    "begins": (UNIT, "np.full(2, self.total > 8, np.float32)", "1.0", "differs after another one"),
}
SEVERAL = """
import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Env(ParallelEnv):
    metadata = {{"name": "several"}}
    possible_agents = ["agent_0", "agent_1"]

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def told(self, value):
        return dict.fromkeys(self.agents, value)

    def reset(self, seed=None, options=None):
        self.agents, self.time = self.possible_agents[:], 0
        return self.told(np.zeros(2, np.float32)), self.told({{}})

    def step(self, actions):
        self.time += 1
        over = self.time >= 9
        parts = [self.told(np.zeros(2, np.float32)), self.told(1.0)]
        parts += [self.told(False), self.told(over), self.told({{}})]
        {fault}
        self.agents = [] if over else self.agents
        return tuple(parts)
"""
SEVERALS = {
    "none": ("pass", ""),
    "typing": ("parts[1] = {'agent0': 1.0}", "rewards are given to 'agent0', which is no agent"),
    "ends": ("parts[2] = {'agent_0': False}", "'agent_1' has no terminated in step 1"),
    "pay": ("parts[1] = {'agent_0': 1.0}", "'agent_1' has no rewards in step 1"),
    "blind": ("del parts[0]['agent_1']", "'agent_1' has no observations in step 1"),
}

RATION = Path(__file__).with_name("toy_ration.py")
# What only the play of compiled games shows: (what is replaced, by what, what is told).
APART = {
    "SPEC": {
        "lane 0": ("s.factor[i] = 1.0 + uniform(", "s.factor[0] = 1.0 + uniform(", "factor is"),
        "scratch": ("(0.0 if a == 0 else s.pool[i])", "s.pool[i]", "was kept"),
        "dead": (
            "max(actions[i, a, 0], 0.0), 1.0) if s.wealth[i, a] > 0.0 else 0.0",
            "max(actions[i, a, 0], 0.0), 1.0)",
            "that has dropped out changes the game",
        ),
        "bound": ("min(max(actions[i, a, 0], 0.0), 1.0)", "actions[i, a, 0]**9", "leaves its Box"),
        "unmarked": ("@per_agent\ndef share", "def share", "Write @kernel, @per_agent or @per_p"),
    },
    "SPEC_NUMPY": {
        "sum": ("s.pool[i] = given.sum(axis=1)", "s.pool[i] = given.sum()", "on another one; "),
        "first": ("1.0 + uniforms(rng, i)[:, 0]", "1.0 + uniforms(rng, i)[:1, 0]", "factor is"),
        "lost": ("obs[i, :, 0] = s.w", "obs[i][:, :, 0] = s.w", "observe_all writes into a copy; "),
        "state": ("i] = 1.0 + uniforms", "i][:] = 1.0 + uniforms", "reset_all writes into a c"),
        "scratch": ("s.pool[i] = given", "s.pool[i] += given", "was kept"),
        "dead": (
            "np.where(lives, actions[i, :, 0].clip(0.0, 1.0), 0.0)",
            "actions[i, :, 0].clip(0.0, 1.0)",
            "that has dropped out changes the game",
        ),
    },
}


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    for table in ("_modules", "_specs"):
        monkeypatch.setattr(registration, table, dict(getattr(registration, table)))


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize("fault", ["none", *FAULTS])
def test_each_fault_is_named_with_its_place(tmp_path, fault):
    before, after, message = FAULTS.get(fault, ("", "", ""))
    text = SOURCE.read_text(encoding="utf-8")
    assert before in text
    file = tmp_path / f"volunteers_{fault}.py"
    file.write_text(text.replace(before, after, 1) if before else text, encoding="utf-8")
    found = "\n".join(map(str, check_environment(f"{file}:SPEC")))
    if fault == "none":
        assert not found
        return
    assert re.search(message, found), found
    assert re.search(rf"{file.name}:\d+: ", found)


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize("fault", GLOBAL)
def test_each_fault_of_a_global_state_is_named(tmp_path, fault):
    line, message = GLOBAL[fault]
    text = SOURCE.read_text(encoding="utf-8")
    kernel = "@kernel\ndef survey(p, s, i, out):\n    for a in range(p.num_agents):\n        "
    space = "lambda p: Box(-1, 1, (p.num_agents,), np.float32)"
    for before, after in (
        ("\n\nSPEC = ", f"\n\n{kernel}{line}\n\n\nSPEC = "),
        ("observe, measure)", "observe, measure, global_state=survey)"),
        ("    source=", f"    global_state_space={space},\n    source="),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    file = tmp_path / f"volunteers_global_{fault}.py"
    file.write_text(text, encoding="utf-8")
    found = "\n".join(map(str, check_environment(f"{file}:SPEC")))
    assert bool(found) == (fault != "none"), found
    assert re.search(message, found), found


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name in APART for fault in ("none", *APART[name])]
)
def test_each_fault_of_lanes_and_states_is_named(tmp_path, name, fault):
    before, after, message = APART[name].get(fault, ("", "", ""))
    text = RATION.read_text(encoding="utf-8")
    assert before in text
    file = tmp_path / f"ration_{fault.replace(' ', '_')}_{name.lower()}.py"
    file.write_text(text.replace(before, after, 1) if before else text, encoding="utf-8")
    found = "\n".join(map(str, check_environment(f"{file}:{name}")))
    assert bool(found) == (fault != "none"), found
    assert re.search(message, found), found
    assert (str(file) in found) == bool(found)


@pytest.mark.slow("plays every environment in Python, and compiled games side by side")
def test_no_environment_of_this_package_has_a_fault(env_id):
    assert check_environment(env_id) == []


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("gymnasium:CartPole-v1", {}, ""),
        ("gymnasium:toy_foreign:Faulty", {"fault": "old step"}, "must return the tuple"),
        ("gymnasium:toy_foreign:Masked", {}, "an episode has no end within 1000 steps"),
        ("pettingzoo:toy_foreign", {"chance": True}, "a seed does not determine an episode"),
    ],
)
def test_environments_of_other_packages(name, parameters, message):
    faults = check_environment(name, **parameters)
    assert message in "\n".join(map(str, faults))
    assert bool(faults) == bool(message)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [*(("gymnasium", fault) for fault in SINGLES), *(("pettingzoo", fault) for fault in SEVERALS)],
)
def test_each_fault_of_an_environment_of_another_package_is_named(tmp_path, kind, fault):
    if kind == "gymnasium":
        box, seen, reward, message = SINGLES[fault]
        text = SINGLE.format(box=box, seen=seen, reward=reward)
    else:
        line, message = SEVERALS[fault]
        text = SEVERAL.format(fault=line)
    file = tmp_path / f"env_{fault}.py"
    file.write_text(text, encoding="utf-8")
    found = "\n".join(map(str, check_environment(f"{kind}:{file}:Env")))
    assert bool(found) == bool(message), found
    assert re.search(message, found), found


def test_the_command_ends_with_status_1(command):
    printed = command("check", "pettingzoo:toy_foreign", "--param", "chance=true", status=1)
    assert "pettingzoo:toy_foreign: 1 fault found." in printed.out
    assert "no fault found" in command("check", "pettingzoo:toy_foreign").out


def test_parameters_of_the_command_are_those_of_evaluate(command, monkeypatch):
    """Parts of a mapping have its name and a dot, and texts stay texts."""
    played = []
    monkeypatch.setattr(check, "check_environment", lambda _, **values: played.append(values) or [])
    command("check", "Routing-v0", "--param", "map_params.obstacle_density=0.1")
    command(
        "check", "Routing-v0", "--param", "map_params.width=5", "--param", "map_params.height=6"
    )
    command("check", "Routing-v0", "--param", "map=12")
    command("check", "TrustDilemma-v1")
    assert played == [
        {"map_params": {"obstacle_density": 0.1}},
        {"map_params": {"width": 5, "height": 6}},
        {"map": "12"},
        {},
    ]


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_a_kernel_without_a_mark_is_a_fault_with_parameters_too(tmp_path, command):
    text = RATION.read_text(encoding="utf-8").replace("@per_agent\ndef share", "def share", 1)
    (tmp_path / "ration_bare.py").write_text(text, encoding="utf-8")
    printed = command("check", "ration_bare.py:SPEC", "--param", "horizon=5", status=1)
    assert "Write @kernel, @per_agent or @per_p" in printed.out
    assert "ration_bare.py:SPEC: 1 fault found." in printed.out


def test_the_environment_in_numpy_on_the_page_has_no_fault(tmp_path):
    page = (ROOT / "docs" / "own-environments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r'```python title="ring.py"\n(.*?)```', page, re.DOTALL)
    file = tmp_path / "ring.py"
    file.write_text(code, encoding="utf-8")
    assert check_environment(f"{file}:SPEC") == []
