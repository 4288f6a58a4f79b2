"""Players: which policy must have played a stored cell, by the cell's name and kind alone.

What a file says of itself decides nothing. A cell with the name of a fixed policy of this package
was played by that policy; one with the name of a learner, by a policy that this learner has trained
and that lies in the cell. Everything else is a policy that is not here to play again.
"""

import json
from typing import NamedTuple

from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.own_code import CodePolicy, stored_code
from coopbench.baselines.registry import POLICY_FILE, hyperparameters, make_policy, parse_name
from coopbench.playing.contestants import contestant_of
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.results.store import Stored
from coopbench.workflows.consistency import policy_discrepancies
from coopbench.workflows.verdicts import Discrepancy


class ExpectedPolicy(NamedTuple):
    """The policy that must have played a cell, and how the cell contradicts it."""

    policy: str | TrainedPolicy | CodePolicy | None  # None: it is not here to play
    discrepancies: list[Discrepancy]


def expected_policy(
    protocol: Protocol, task: Task, stored: Stored, trust: tuple[str, ...] = ()
) -> ExpectedPolicy:
    """Return who must have played a cell with episodes.

    Code that results have stored is executed only if ``trust`` holds the digest of its source, and
    only for a cell with a name that is not registered.
    """
    if stored.episodes is None:
        raise ValueError("A failed run has no policy.")
    contestant = contestant_of(protocol, stored.episodes.cell.policy)
    if contestant.origin == "trained":
        return _trained(stored)
    if contestant.origin == "fixed":
        return _fixed(task, stored, contestant.family)
    return _foreign(stored, trust)


def _trained(stored: Stored) -> ExpectedPolicy:
    """Return the policy of a learner, which must lie in the cell."""
    cell, plays = stored.meta["policy"], stored.meta["plays"]
    learner = parse_name(cell).kind
    discrepancies = []
    if plays not in ((cell,) if stored.meta["run"] is None else (None,)):
        discrepancies.append(
            Discrepancy(f"meta.json says that {plays!r} plays, but the cell is of {cell!r}")
        )
    if stored.policy is None:
        lacking = f"the cell of a policy of the learner {learner!r} has to hold {POLICY_FILE}"
        return ExpectedPolicy(None, [*discrepancies, Discrepancy(lacking)])
    if stored.policy.name != learner:
        discrepancies.append(Discrepancy(f"{POLICY_FILE} was trained by {stored.policy.name!r}"))
    if stored.meta["run"] is not None:
        discrepancies += policy_discrepancies(stored, stored.policy)
    return ExpectedPolicy(stored.policy, discrepancies)


def _fixed(task: Task, stored: Stored, name: str) -> ExpectedPolicy:
    """Return the fixed policy of this package that a cell is named after."""
    plays, discrepancies = stored.meta["plays"], []
    if plays not in (None, name):
        text = f"meta.json says that {plays!r} plays, but the cell is that of {name!r}"
        discrepancies.append(Discrepancy(text))
    if stored.policy is not None:
        discrepancies.append(Discrepancy(f"there is a {POLICY_FILE}, but {name!r} is not trained"))
    if stored.progress is not None:
        discrepancies.append(Discrepancy(f"there are checkpoints, but {name!r} is not trained"))
    make_policy(name, game_of(task))
    stated, values = stored.meta.get("hyperparameters"), hyperparameters(name)
    if stated != json.loads(json.dumps(values)):
        text = f"meta.json has the hyperparameters {stated!r}; those of {name!r} are {values!r}"
        # Another version may have other defaults.
        discrepancies.append(Discrepancy(text, close=True))
    return ExpectedPolicy(name, discrepancies)


def _foreign(stored: Stored, trust: tuple[str, ...]) -> ExpectedPolicy:
    """Return the policy that a cell of an unregistered name holds: trusted code or trained."""
    if stored.source is not None and stored.meta["code"]["sha256"] in trust:
        code = stored.meta["code"]
        return ExpectedPolicy(stored_code(code["place"], code["attribute"], stored.source), [])
    if stored.policy is None or stored.meta["run"] is None:
        return ExpectedPolicy(None, [])
    return ExpectedPolicy(stored.policy, list(policy_discrepancies(stored, stored.policy)))
