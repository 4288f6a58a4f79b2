"""Options that several commands share, and how their values become arguments."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Backend",
    "Policies",
    "ProtocolName",
    "Workers",
    "assignment",
    "chosen",
    "protocol_with_maps",
]

ProtocolName = Annotated[
    str, typer.Argument(metavar="PROTOCOL", help="A name from 'coopbench list', or a .toml file.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME",
        help="Policy to evaluate, e.g. tit_for_tat or constant:0.35, or your own code as "
        "FILE.py:NAME or module:NAME, which is executed; repeat for more. "
        "Default: the protocol's required baselines.",
    ),
]

Backend = Annotated[
    str,
    typer.Option(
        help="Where cells are played: serial; processes, several at a time; or ray, on a cluster."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="With --backend processes or ray: how many cells at a time. Default: one per usable "
        "core, or per core of the cluster."
    ),
]


def chosen(policy: list[str] | None, protocol: Any) -> list[str]:
    """Return the policies of the command line, or the protocol's required baselines."""
    return list(policy or protocol.report.baselines)


def protocol_with_maps(name: str, maps: Path | None) -> Any:
    """Load a protocol; with ``maps``, the street-map tasks play the map files of that folder."""
    from coopbench.protocol.loading import load_protocol
    from coopbench.protocol.user_maps import with_maps

    protocol = load_protocol(name)
    return protocol if maps is None else with_maps(protocol, maps)


def assignment(text: str, option: str, params: type | None = None) -> tuple[str, Any]:
    """Parse NAME=VALUE of ``option``; the value is read as TOML if it is valid TOML, else as text.

    With ``params`` the value of a text parameter stays text unless it is a quoted TOML string.
    Raises ``ValueError`` for text of another form.
    """
    from coopbench_envs.parameters import describe as describe_parameters

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option} takes NAME=VALUE; given {text!r}.")
    name = name.strip()
    fields = {} if params is None else describe_parameters(params)
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
    kind = fields[name][0] if name in fields else ""
    return name, value.strip() if kind == "str" and not isinstance(parsed, str) else parsed
