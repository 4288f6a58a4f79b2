"""Whether the results of a registered study keep to its registration."""

from collections.abc import Mapping, Set
from typing import Any

from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.registration import Registration
from coopbench.protocol.schema import Protocol

REGISTERED, NOT_REGISTERED, DEVIATES = "registered", "not registered", "deviates"


def study_deviations(
    registration: Registration,
    protocol: Protocol,
    table: EpisodeTable,
    metadata: Mapping[Cell, Mapping[str, Any]],
    shipped: Set[str] = frozenset(),
) -> tuple[str, ...]:
    """Return how results deviate from their registration; empty if they keep to it.

    Policies whose runs are ``shipped`` may take part unregistered: they were fixed before. A method
    that is registered covers its models of single tasks.
    """
    reasons = []
    if registration.digest != protocol.content_digest:
        reasons.append(f"it is of {registration.protocol} with another content")
    present = table.policies
    methods = {protocol.family(name)[0] for name in present}
    lacking = [name for name in registration.contestants if name not in methods | {*present}]
    allowed = shipped | set(registration.contestants)
    further = [name for name in present if allowed.isdisjoint((name, protocol.family(name)[0]))]
    for what, names in (("are missing", lacking), ("were not registered", further)):
        if names:
            reasons.append(f"{', '.join(names)} {what}")
    dates = sorted(
        str(meta["created"])
        for cell, meta in metadata.items()
        if "created" in meta and cell.policy not in shipped
    )
    if dates and dates[0] < registration.date:
        reasons.append(f"the first result is of {dates[0]}, before {registration.date}")
    if not dates and len(table):
        reasons.append("the results have no dates")
    return tuple(reasons)
