"""Trained policies of training runs by content: a folder, and the digest of what it must hold.

A protocol may name them as partners: its digest then says which policy it means, wherever it lies.
"""

import hashlib
from pathlib import Path
from typing import Annotated, NamedTuple

from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import LARGEST, POLICY_FILE, TrainedPolicy
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import Allowed
from coopbench_envs.reading import read_regular

__all__ = ["frozen_name"]

_SHORTEST = 12  # hex digits that a name has to give
_WRITTEN = 16  # hex digits that names made here have


class Params(NamedTuple):
    """What stands after the colon: ``frozen:0123456789ab,results/.../run-1000``."""

    digest: Annotated[str, Allowed("first 12 or more hex digits of the SHA-256 of policy.npz")]
    folder: Annotated[str, Allowed("the folder of a training run, which holds policy.npz")]


def frozen_name(folder: Path) -> str:
    """Return the name of the policy that a folder holds now; ``ValueError`` if names cannot."""
    if set(str(folder)) & set(",="):
        raise ValueError(
            f"{folder} has a comma or '=' in its path, which names of policies split; rename that "
            f"folder, or move the results."
        )
    digest = hashlib.sha256((folder / POLICY_FILE).read_bytes()).hexdigest()
    return f"frozen:{digest[:_WRITTEN]},{folder}"


def frozen(game: Game, parameters: Params) -> TrainedPolicy:
    """Return the policy of a training run.

    Raises ``ValueError`` if there is none, if it has another digest, and if it cannot play.
    """
    file, written = Path(parameters.folder) / POLICY_FILE, parameters.digest
    try:
        content = read_regular(file, LARGEST)
    except (OSError, ValueError):
        raise ValueError(
            f"Policy 'frozen:{written},{parameters.folder}': there is no {file} of up to "
            f"{LARGEST:,} bytes; put it back, or name the folder of a training run."
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if len(written) < _SHORTEST or not digest.startswith(written):
        raise ValueError(
            f"Policy 'frozen:{written},{parameters.folder}': {file} has the digest "
            f"{digest[:_WRITTEN]}. Allowed: the first {_SHORTEST} or more digits of it."
        )
    policy = read_policy(content)
    policy.check(game)
    return policy


ENTRY = Entry("frozen", frozen, "a trained policy, with the digest of its content", "local", Params)
