"""Cells of environments from outside of this package: whether and how far they can be verified.

A results folder names an environment, and to play it again is to execute the code of that name
with the parameters that the folder states. So it takes the user's word, and the same code; and an
environment that does not repeat itself cannot be verified at all. The code of a registered
environment is the user's own choice already.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coopbench.analysis.environments import code_text
from coopbench.episodes.table import Cell
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.results.store import Stored
from coopbench.workflows.verdicts import DIFFERENT, UNVERIFIABLE, Check, printable
from coopbench_envs.foreign.loading import code_of
from coopbench_envs.foreign_names import is_foreign, permit
from coopbench_envs.parameters import unknown


def permit_environments(protocol: Protocol, names: Sequence[str]) -> None:
    """Let the environments of other packages be made that the user names.

    Each must be one of the protocol; raises ``ValueError`` for any other name.
    """
    environments = {task.env for task in protocol.task if is_foreign(task.env)}
    for name in filter(is_foreign, names):
        if name not in environments:
            place = "other packages in these results"
            raise ValueError(unknown("environment", name, environments, place))
        permit(name)


def unplayable(
    protocol: Protocol, cells: Mapping[str, tuple[Cell, Stored]], names: Sequence[str]
) -> dict[str, Check]:
    """Return the checks of cells that are not played again, by folder, with the reason.

    ``names`` are the environments of other packages whose code the user lets be executed.
    """
    checks = {}
    for place, (cell, stored) in cells.items():
        task = protocol.task_of(cell.task)
        if stored.episodes is None or not is_foreign(task.env):
            continue
        reason = _reason(task.env, stored, names)
        if not reason:
            try:
                game_of(task)
            except Exception as error:  # the code is of another package
                reason = f"{task.env} cannot be made here: {type(error).__name__}: {error}"
        if reason:
            text = printable(f"not verifiable: {reason}")
            count = len(stored.episodes)
            checks[place] = Check(place, UNVERIFIABLE, (text,), episodes=count)
    return checks


def _reason(env: str, stored: Stored, names: Sequence[str]) -> str:
    """Say why a cell of an environment cannot be played again; empty if nothing is against it."""
    facts = {} if stored.episodes is None else stored.episodes.environment
    if not facts:
        return f"it does not say what code of {env} it was played with"
    if not facts["repeats"]:
        return f"{env} is not deterministic: an episode that was played twice went another way"
    if env not in names:
        return (
            f"code of {code_text(facts['code'])}, which is executed only if you name it: "
            f"--execute {shlex.quote(env)}"
        )
    return ""


def with_code(protocol: Protocol, cell: Cell, stored: Stored, check: Check) -> Check:
    """Return the check of a cell that was played again, with the code that it was played with.

    A difference proves nothing where the code is another one.
    """
    now = code_of(protocol.task_of(cell.task).env)
    if not now or stored.episodes is None:
        return check
    before = stored.episodes.environment.get("code", {})
    if before == now:
        text = f"played again with code of {code_text(now)}"
        return replace(check, reasons=(*check.reasons, printable(text)))
    text = f"played with {code_text(before) or 'code that is not named'}; here with"
    reasons = (printable(f"{text} {code_text(now)}"), *check.reasons)
    verdict = UNVERIFIABLE if before and check.verdict == DIFFERENT else check.verdict
    return replace(check, verdict=verdict, reasons=reasons)
