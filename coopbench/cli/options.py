"""Options that several commands share, and how their values become arguments."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer


def option(text: str, *names: str, default: Any = None, **facts: Any) -> Any:
    """Return an option of a command with its help; its default is ... where it has to be given.

    ``names`` are those of a flag, which has no opposite, or other ones than the parameter has.
    ``facts`` are arguments of ``typer.Option``.
    """
    return typer.Option(default, *names, help=text, **facts)


def argument(text: str, **facts: Any) -> Any:
    """Return an argument of a command with its help; ``facts`` are those of ``typer.Argument``."""
    return typer.Argument(..., help=text, **facts)


# For the completion of a shell: typer takes those names that begin as what is typed.


def _protocol_names() -> list[str]:
    """Return the names of all protocols."""
    from coopbench.protocol.loading import protocol_files

    return list(protocol_files())


def _policy_names() -> list[str]:
    """Return the names of all policies that need no training."""
    from coopbench.catalogue import policies

    return list(policies())


def learner_names() -> list[str]:
    """Return the names of all learners."""
    from coopbench.catalogue import learners

    return list(learners())


def target_names() -> list[str]:
    """Return the names of all protocols, and the ids of environments in both spellings."""
    from coopbench_envs.registration import ids

    short = (name.removeprefix("coopbench/") for name in ids())
    return [*_protocol_names(), *short, *ids()]


def parameter_names(ctx: typer.Context) -> list[str]:
    """Return the parameters of the environment to be played.

    Those of the map that ``--param map=`` chooses are among them.
    """
    from coopbench_envs.choices import offered
    from coopbench_envs.parameters import describe as describe_parameters
    from coopbench_envs.pathfinding.routing import MAPS
    from coopbench_envs.registration import spec

    try:
        # What is typed is no whole command, so that the first argument is still unnamed.
        fields = describe_parameters(offered(spec(ctx.params["target"] or "".join(ctx.args[:1]))))
    except ValueError:
        return []  # no environment yet
    names = list(fields)
    if "map_params" in fields:
        given = dict(text.partition("=")[::2] for text in ctx.params.get("param") or ())
        chosen = MAPS.get(given.get("map", fields["map"][1]))
        if chosen is not None:
            names += [f"map_params.{name}" for name in describe_parameters(chosen.params)]
    return [f"{name}=" for name in names]


# What folders of results are not called: an option that takes a folder was given a file.
_FILES = (".csv", ".gif", ".html", ".json", ".md", ".npz", ".tex", ".toml", ".txt", ".zip")


def to_folder(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Return the folder that an option names, which is written into.

    Raises ``ValueError`` for a file, and for a name that only files have.
    """
    if value is None or value.is_dir():
        return value
    if value.exists() or value.suffix.lower() in _FILES:
        other = value.with_suffix("") if value.suffix else Path(f"{value}-results")
        raise ValueError(
            f"{param.opts[0]} takes a folder, and {value} is a file or is named like one; name a "
            f"folder, for instance {other}"
        )
    return value


PROTOCOL = typer.Argument(
    metavar="PROTOCOL",
    help="A name from 'coopbench list', or a .toml file.",
    autocompletion=_protocol_names,
)
ProtocolName = Annotated[str, PROTOCOL]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="POLICY",
        help="Policy to play, such as tit_for_tat or constant:0.35, or your own code as "
        "FILE.py:OBJECT or module:OBJECT, which is executed, or a FILE.zip of Stable-Baselines3; "
        "NAME=FILE.py:OBJECT names it. A trained model is one run of a learner. "
        "Repeat the option for more policies. Default: the protocol's required baselines.",
        autocompletion=_policy_names,
    ),
]

Backend = Annotated[
    str,
    typer.Option(
        help="How cells are played: serial, one after the other; processes, several at a time; "
        "ray, on a cluster; auto: processes where they pay, else serial."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="How many processes, or cells at a time on a cluster; 1 plays in this process with "
        "--backend auto. Default: one per usable core, or per core of the cluster."
    ),
]


def _register(names: list[str] | None) -> list[str]:
    """Register the environments that files or modules define."""
    import coopbench_envs

    for name in names or ():
        coopbench_envs.spec(name)
    return names or []


Environments = Annotated[
    list[str] | None,
    typer.Option(
        "--register",
        metavar="FILE.py:SPEC",
        help="Register the environment of a file, which is executed; repeat for more. Needed if "
        "results or a protocol use an environment that is not installed.",
        callback=_register,
    ),
]
Only = Annotated[
    bool,
    typer.Option(
        "--only",
        help="Play only the policies of -p, without the required baselines and learners (not a "
        "standard report).",
    ),
]
PlayShipped = Annotated[
    bool,
    typer.Option(
        "--play-shipped",
        help="Play shipped runs whose scores ship, too, rather than take these scores.",
    ),
]


def chosen(policy: list[str] | None, protocol: Any) -> list[Any]:
    """Return the policies of the command line, or the protocol's required baselines."""
    from coopbench.playing.contestants import spelled

    return [spelled(text) for text in policy or protocol.report.fixed]


def check_alone(policy: list[str] | None, only: bool) -> None:
    """Raise ``ValueError`` for --only without policies that play alone."""
    if only and not policy:
        raise ValueError("--only plays the policies of -p alone; name one with -p.")


def contestants(policy: list[str] | None, protocol: Any, only: bool) -> list[Any]:
    """Return the policies of 'evaluate': those of -p and, unless they play alone, baselines."""
    from coopbench.playing.contestants import with_baselines

    policies = chosen(policy, protocol)
    return policies if only else with_baselines(protocol, policies)


def protocol_with_maps(name: str, maps: Path | None) -> Any:
    """Load a protocol; with ``maps``, the street-map tasks play the map files of that folder."""
    from coopbench.protocol.loading import load_protocol
    from coopbench.protocol.variants import with_maps

    protocol = load_protocol(name)
    return protocol if maps is None else with_maps(protocol, maps)


def environment_parameters(env: str, texts: list[str] | None) -> dict[str, Any]:
    """Read ``--param NAME=VALUE`` by the types of an environment's parameters.

    NAME.KEY=VALUE is of a parameter that is a mapping. Raises ``ValueError`` for text of another
    form, for two values of one parameter, and for a mapping that is given whole and by key.
    """
    from coopbench_envs.parameters import describe as describe_parameters
    from coopbench_envs.registration import spec

    if not texts:
        return {}
    params = spec(env).params
    fields, values = describe_parameters(params), dict[str, Any]()
    given, parts = set[str](), set[str]()  # what is given, and of which mappings keys are
    for text in texts:
        name, value = assignment(text, "--param", params)
        if name in given:
            raise ValueError(f"--param gives {name} twice; give each parameter once.")
        given.add(name)
        head, dot, key = name.partition(".")
        by_key = bool(dot) and head in fields and fields[head][0] == "dict"
        place = head if by_key else name
        if place in values and by_key != (place in parts):
            raise ValueError(f"--param gives {place} as a whole and by key; give one of the two.")
        if by_key:
            parts.add(head)
            value = {**values.get(head, {}), key: value}
        values[place] = value
    return values


def assignment(text: str, option: str, params: type | None = None) -> tuple[str, Any]:
    """Parse NAME=VALUE of ``option``.

    The value is TOML, or numbers with commas between them, with or without parentheses, as help
    prints them; anything else is text. With ``params`` the value of a text parameter stays text
    unless it is a quoted TOML string. Raises ``ValueError`` for text of another form.
    """
    from coopbench_envs.parameters import describe as describe_parameters

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{option} takes NAME=VALUE; given {text!r}.")
    name = name.strip()
    fields = {} if params is None else describe_parameters(params)
    parsed = _value(value)
    kind = fields[name][0] if name in fields else ""
    if "tuple" in kind and type(parsed) in (int, float):
        parsed = [parsed]  # one number where several are allowed
    return name, value.strip() if kind == "str" and _spells_no_text(value) else parsed


def _value(text: str) -> Any:
    """Return what a text spells as TOML or as a row of numbers; the text itself if nothing."""
    inner = text.strip()
    if inner.startswith("(") and inner.endswith(")"):
        inner = inner[1:-1]
    for written in (text, f"[{inner}]" if "," in inner else text):
        try:
            return tomllib.loads(f"value = {_as_toml(written)}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    return text


def _as_toml(text: str) -> str:
    """Return a value as TOML spells it: Python's True and False become lower case."""
    return {"True": "true", "False": "false"}.get(text.strip(), text)


def _spells_no_text(text: str) -> bool:
    """Whether a text is not a quoted string of TOML."""
    return not isinstance(_value(text), str) or _value(text) == text
