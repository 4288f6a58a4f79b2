"""coopbench check: faults of environments, each with its place and what to do."""

import re
from pathlib import Path

import pytest

from coopbench.check import check_environment
from coopbench_envs import registration

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
    "gap": ('"own_choice": 1', '"own_choice": 0', "no part of layout has place 2 of"),
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


def test_the_command_ends_with_status_1(command):
    printed = command("check", "pettingzoo:toy_foreign", "--param", "chance=true", status=1)
    assert "pettingzoo:toy_foreign: 1 fault found." in printed.out
    assert "no fault found" in command("check", "pettingzoo:toy_foreign").out
