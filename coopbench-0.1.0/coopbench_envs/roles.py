"""Roles: the words in the names of agents, ``stalker`` of ``stalker_0`` and ``stalker_1``.

An environment names its agents "word_number". Agents whose names have the same word play the same
role: frameworks group them, protocols give them partners, and certificates let them act alike. How
they are numbered is the environment's choice: ``stalker_0, zealot_1`` counts through the team,
``stalker_0, zealot_0`` through the role.
"""

from collections.abc import Iterable

__all__ = ["members_of_roles", "role_of"]


def role_of(agent: str) -> str:
    """Return the role of an agent, which is its name without the number: ``sony`` of ``sony_0``."""
    word, _, number = agent.rpartition("_")
    return word if word and number.isdigit() else agent


def members_of_roles(agents: Iterable[str]) -> dict[str, list[int]]:
    """Return the seats of every role, {role: [index of an agent, ...]}, in the order of seats."""
    members: dict[str, list[int]] = {}
    for index, agent in enumerate(agents):
        members.setdefault(role_of(agent), []).append(index)
    return members
