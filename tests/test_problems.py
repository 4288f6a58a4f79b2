"""The page on what goes wrong: its messages are the ones that are raised."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import coopbench
from coopbench.baselines import registry

PAGE = Path(__file__).resolve().parent.parent / "docs" / "problems.md"
GAME = "coopbench/TrustDilemma-v1"


def flat(observations):
    return np.full(observations.shape[:2], 0.5)


def big(observations):
    return np.full((*observations.shape[:2], 1), 50.0)


def broken(observations):
    return np.full((*observations.shape[:2], 1), np.nan)


def play(policy="random", **options):
    coopbench.evaluate(GAME, policy, **{"episodes": 2, "horizon": 3} | options)


def other_episodes():
    play(out="results")
    play(out="results", episodes=3)


def step_before_reset():
    game = gymnasium.make(GAME).unwrapped
    game.step(game.action_space.sample())


def train_without_packages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "find_spec", lambda name: None)
        registry._check_libraries("ippo")  # learners that were loaded before are kept


CASES = {
    "A name is not known": lambda: play("tit_for_tatt"),
    "A task is given instead of a protocol": lambda: coopbench.evaluate("trust-dilemma"),
    "An argument is not known": lambda: play(n_episodes=3),
    "Actions have the wrong shape": lambda: play(flat),
    "Actions are outside of the action space": lambda: play(big),
    "Actions are not finite": lambda: play(broken),
    "The folder holds other results": other_episodes,
    "A saved model is not found": lambda: play("model.zip"),
    "An episode is over": step_before_reset,
    "A learner needs more packages": train_without_packages,
}
_QUOTED = re.compile(r"^### ([^\n]+)\n+```{ .text .message }\n(.*?)\n```", re.DOTALL | re.MULTILINE)


def quoted():
    return dict(_QUOTED.findall(PAGE.read_text(encoding="utf-8")))


def test_every_message_of_the_page_is_raised_here():
    assert set(quoted()) == set(CASES)
    assert PAGE.read_text(encoding="utf-8").count(".message }") == len(CASES)


@pytest.mark.parametrize("heading", CASES)
def test_the_page_quotes_the_message(heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = (re.escape(part.strip()) for part in quoted()[heading].split("..."))
    pattern = r"[\s\S]*?".join(parts)
    if heading == "Actions are outside of the action space":
        with pytest.warns(UserWarning, match=pattern):
            CASES[heading]()
    else:
        with pytest.raises(Exception, match=pattern):
            CASES[heading]()
