"""Late seeds: policies are committed to first, and the seeds that they meet follow later.

``commit`` writes the digests of policies and protocol into one file, whose own digest is published.
The evaluation seeds then follow from that digest and a public value that was unknown before.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from coopbench.baselines.own_code import CodePolicy, identity_of
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError
from coopbench.files import UNREADABLE, digest_of, parsed, read_bounded, write_bytes
from coopbench.playing.contestants import Contestant, contestant_of
from coopbench.protocol.base import Strict
from coopbench.protocol.schema import Protocol
from coopbench.protocol.variants import with_late_seeds
from coopbench.results.folder import stored_cells, write_protocol
from coopbench.results.protocol_file import read_protocol
from coopbench.results.store import Stored
from coopbench.workflows.verdicts import Check, Discrepancy, concluded

FILE = "commitment.json"  # in a results folder

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# Digest of weights, or of a source and behind it the name of the policy in that source.
Identity = Annotated[str, Field(pattern=r"^[0-9a-f]{64}(:[\w.]+)?$")]


class Commitment(Strict):
    """What was committed to: a protocol, and policies by weights, or by source and name in it."""

    version: Literal[2] = Field(default=2, alias="schema")
    protocol: str
    digest: Digest  # of the protocol
    policies: dict[str, list[Identity]] = Field(min_length=1)


def commit(folder: str | Path, out: str | Path | None = None) -> tuple[Path, str]:
    """Write the commitment to the policies of a results folder; return the file and its SHA-256.

    The file is ``out``, or ``commitment.json`` in the folder. Policies that ship with this package
    are left out: all users have them.

    Raises:
        FileNotFoundError: the folder holds no results.
        FileExistsError: there is such a file; a commitment is never edited.
        ValueError: a cell is damaged, results hold neither weights nor source of a policy, or
            there is no policy to commit to.
    """
    root, notes = Path(folder), list[str]()
    protocol, file = read_protocol(root), Path(out or root / FILE)
    if file.exists():
        raise FileExistsError(f"{file} exists, and a commitment is not edited; name another file.")
    identities: dict[str, set[str]] = {}
    for cell, stored in stored_cells(root, protocol, notes):
        if stored.episodes is None or _ships(protocol, cell.policy):
            continue
        identity = _stored_identity(stored)
        if identity is None:
            raise ValueError(
                f"{root} holds neither weights nor source of {cell.policy!r}, so there is "
                f"nothing to commit to; evaluate it as FILE.py:NAME, or train it with a learner."
            )
        identities.setdefault(cell.policy, set()).add(identity)
    if notes or not identities:
        reasons = " ".join(notes) or "it has no policies but those of this package."
        raise ValueError(f"{root} cannot be committed to: {reasons}")
    content = {
        "schema": 2,
        "protocol": protocol.name,
        "digest": protocol.digest,
        "policies": {name: sorted(known) for name, known in sorted(identities.items())},
    }
    text = (json.dumps(content, indent=1) + "\n").encode()
    write_bytes(file, text)
    return file, digest_of(text)


def read_commitment(file: Path) -> tuple[Commitment, bytes]:
    """Return a commitment and the bytes of its file; raise ``ValueError`` if it is none."""
    if not file.is_file():
        raise ValueError(f"{file} is missing; 'coopbench commit FOLDER' writes a commitment.")
    try:
        text = read_bounded(file)
        return Commitment.model_validate(parsed(text)), text
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"])) or "file"
        raise ValueError(f"{file} is not a commitment: {key}: {problem['msg']}") from None
    except (DamagedResultError, *UNREADABLE) as error:
        raise ValueError(f"{file} is not a commitment: {error}") from None


def late_protocol(
    file: Path,
    beacon: str,
    protocol: Protocol,
    contestants: Iterable[tuple[Cell, Contestant]],
    out: str | Path | None,
) -> Protocol:
    """Return a protocol with the seeds that follow from a commitment and a beacon.

    The commitment is copied into the folder of the results, ``out``. Raises ``ValueError`` if it is
    to another protocol, or if not all who play were committed to.
    """
    commitment, text = read_commitment(file)
    _check_committed(commitment, protocol, contestants)
    late = with_late_seeds(protocol, digest_of(text), beacon)
    if out is not None:
        write_protocol(Path(out), late)
        write_bytes(Path(out) / FILE, text)
    return late


def _check_committed(
    commitment: Commitment, protocol: Protocol, contestants: Iterable[tuple[Cell, Contestant]]
) -> None:
    """Raise ``ValueError`` unless the protocol and all who play were committed to."""
    if protocol.digest != commitment.digest:
        raise ValueError(
            f"The commitment is to {commitment.protocol} with digest {commitment.digest[:12]}; "
            f"this is {protocol.name} with digest {protocol.digest[:12]}. Evaluate that protocol."
        )
    for cell, contestant in contestants:
        weights, model = contestant.weights, contestant.model
        identity = None if weights is None else digest_of(weights.pack())
        if isinstance(model, CodePolicy):
            identity = identity_of(model.code)
        reason = _not_committed(commitment, protocol, cell.policy, identity)
        if reason:
            raise ValueError(f"{reason}; committed: {', '.join(commitment.policies)}.")


def late_checks(
    root: Path, protocol: Protocol, cells: Mapping[str, tuple[Cell, Stored]]
) -> list[Check]:
    """Check that the cells of a folder with late seeds are of policies that were committed to."""
    late = protocol.seeds.late
    if late is None:
        return []
    try:
        commitment, text = read_commitment(root / FILE)
    except ValueError as error:
        return [concluded(FILE, [Discrepancy(str(error))])]
    discrepancies = []
    if digest_of(text) != late.commitment:
        discrepancies.append(Discrepancy("it is not the one from which the seeds follow"))
    for cell, stored in cells.values():
        if stored.episodes is not None:
            reason = _not_committed(commitment, protocol, cell.policy, _stored_identity(stored))
            discrepancies += [Discrepancy(f"{cell.folder}: {reason}")] if reason else []
    return [concluded(FILE, discrepancies)]


def commitment_of(folders: Iterable[Path], protocol: Protocol) -> bytes | None:
    """Return the file of the commitment from which the seeds of results folders follow.

    None for a protocol without late seeds. Raises ``ValueError`` if no folder holds the file.
    """
    late = protocol.seeds.late
    if late is None:
        return None
    for folder in folders:
        with suppress(ValueError):
            _, text = read_commitment(folder / FILE)
            if digest_of(text) == late.commitment:
                return text
    raise ValueError(
        f"No folder holds the {FILE} from which its late seeds follow (SHA-256 "
        f"{late.commitment[:12]}); copy that file into one of them."
    )


def _ships(protocol: Protocol, policy: str) -> bool:
    """Return whether a name is that of a fixed policy that ships with this package."""
    contestant = contestant_of(protocol, policy)
    return contestant.origin == "fixed" and contestant.shipped


def _stored_identity(stored: Stored) -> str | None:
    """Return what identifies the policy of a cell, see ``Identity``; None without either."""
    if stored.source is not None:
        return identity_of(stored.meta["code"])
    return None if stored.policy is None else digest_of(stored.policy.pack())


def _not_committed(
    commitment: Commitment, protocol: Protocol, policy: str, identity: str | None
) -> str:
    """Say that a policy was not committed to; empty if it was, or if it ships."""
    if _ships(protocol, policy) or identity in commitment.policies.get(policy, ()):
        return ""
    digest, _, name = str(identity).partition(":")
    named = f", {name!r} in its source," if name else ""
    return f"{policy!r} with digest {digest[:12]}{named} was not committed to"
