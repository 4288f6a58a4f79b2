"""Tables of docs/environments/rail_networks.md, from what ``studies/rail`` has stored."""

import checkout  # noqa: F401

from studies.rail import maps


def parts() -> dict[str, str]:
    """Return every generated part of the page."""
    return {"maps": maps.table(maps.rows_of(maps.OURS))}
