"""Reference pages that are made from the code: commands, keys of a protocol, spaces and infos."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import gallery

from coopbench.protocol import limits, report, schema, seeds, task, training
from coopbench.report.markdown import rows_table
from coopbench_envs.engine import Engine

_COMMANDS = """# Commands

Every command of `coopbench`, with its arguments and options. `coopbench COMMAND --help` prints
the same. Options that can be repeated say so. The exit status is described in
[Running](running.md#errors).

"""
_KEYS = """# Keys of a protocol

A protocol is a TOML file with the tables below. [Protocols](protocols.md) explains what they mean
together; this page lists every key with its type, its default and its bounds. A key that is not
listed here is an error. Two more keys are resolved when the file is read: `extends` names the
protocol that a file [extends](protocols.md#extending), and `[pools]` lists
[partners](protocols.md#who-plays) under a name.

"""
# Keys whose names say almost everything, and which have no comment in the source.
_MEANINGS = {
    "Identity.name": "lower-case letters, digits and hyphens",
    "Identity.version": "version of the protocol; results of two versions are never compared",
    "Identity.description": "one sentence, shown in lists and reports",
    "Identity.citation": "publication that the protocol reproduces",
    "Evaluation.first": "first seed",
    "Evaluation.count": "number of episodes; their seeds are consecutive",
    "Seeds.training": "one seed per training run",
    "Seeds.evaluation": "seeds of the episodes that are reported",
    "Budget.steps": "steps of the whole training",
    "Seeds.selection": "seeds of the episodes after every interval of training, which choose the "
    "best checkpoint",
    "Training.on": "`each`: one model per task; `any`: one model, trained on anything except "
    "`held_out`",
    "Training.plays": "`own`: a model plays the task that it was trained on; `all`: every task",
    "Training.held_out": "values that must not be used for training, of the parameter that the "
    "environment declares for this (`EnvSpec.held_out`)",
    "Training.episodes": "episodes of every evaluation during training",
    "Training.budgets": "how long learners train, by kind of learner",
    "Training.runs": "training runs of a learner, one per training seed",
    "Bounds.low": "score that counts as 0",
    "Bounds.high": "score that counts as 1",
    "Instances.file": "file of start positions, next to the protocol's file",
    "Instances.sha256": "checksum of the file",
    "Task.id": "name of the task, unique in the protocol",
    "Task.env": "id of the environment, for instance `coopbench/TrustDilemma-v1`",
    "Task.parameters": "parameters of the environment; the others have their defaults",
    "Task.bounds": "scores that count as 0 and as 1",
    "Task.budget": "budget of all learners on this task; by default that of `[training.budgets]`",
    "Task.instances": "frozen start positions; by default the seeds draw them",
    "Chart.metric": "metric on the vertical axis",
    "Chart.x": "axis of the tasks on the horizontal axis",
    "Chart.per": "axis; the report has one picture for each of its values",
    "Chart.scale": "scale of the horizontal axis",
    "Reporting.metrics": "metrics that are shown for every task",
    "Reporting.baselines": "fixed policies that a standard report must contain, on all tasks",
    "Domain.baselines": "fixed policies required on the tasks of the group; they play no others",
    "Reporting.confidence": "level of the intervals",
    "Reporting.resamples": "resamples of a bootstrap",
    "Reporting.alpha": "level of the tests",
    "Reporting.chart": "charts of metrics against an axis of the tasks",
    "Protocol.protocol": "what the protocol is called",
    "Protocol.seeds": "seeds of training, evaluation and selection",
    "Protocol.report": "score, metrics, baselines and statistics",
    "Protocol.training": "what learned policies are trained on, and how long",
    "Protocol.task": "the tasks, one `[[task]]` each",
}
# Sections in the order of a file, with the way their tables are written in TOML.
_SECTIONS = {
    "Identity": "[protocol]",
    "Seeds": "[seeds]",
    "Evaluation": "evaluation and selection, in [seeds]",
    "Training": "[training]",
    "Budget": "[training.budgets.KIND], and budget, in [[task]]",
    "Limits": "[limits]",
    "Reporting": "[report]",
    "Reproduction": "[report.reproduces]",
    "Domain": "[report.domain.GROUP]",
    "Chart": "chart, in [report]",
    "Task": "[[task]]",
    "Bounds": "bounds, in [[task]]",
    "Instances": "instances, in [[task]]",
}


def commands() -> str:
    """Return the page of all commands, from the command line itself."""
    import typer

    from coopbench.cli.main import app

    group: Any = typer.main.get_command(app)
    return _COMMANDS + "\n\n".join(_parts("coopbench", group)) + "\n"


def _parts(name: str, command: Any) -> Iterator[str]:
    """Yield the parts on a command and, if it has any, on its subcommands."""
    yield _command(name, command)
    for below, subcommand in getattr(command, "commands", {}).items():
        yield from _parts(f"{name} {below}", subcommand)


def _command(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:  # of a hidden one
            shown, meaning = record
            rows[parameter.param_type_name].append((f"`{_plain(shown)}`", _cell(meaning)))
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), usage)
    parts = [f"## {name}", f"```text\n{usage}\n```", _paragraphs(command.help or "")]
    for kind, members in rows.items():
        if members:
            parts.append(rows_table([kind.capitalize(), "Meaning"], members))
    return "\n\n".join(parts)


def _plain(shown: str) -> str:
    """Return an option or argument as help shows it, with the usual words for types."""
    words = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER", "path": "PATH"}
    shown = shown.replace(" <bool>", "")
    name = re.compile(r"<(?:list\[)?(\w+)\]?>")
    shown = re.sub(r"^([A-Za-z_]\w*) <.*>$", lambda match: match[1].upper(), shown)
    return name.sub(lambda match: words.get(match[1], match[1].upper()), shown)


def _paragraphs(text: str) -> str:
    """Return a help text with every paragraph on one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text))


def _cell(text: str) -> str:
    """Return a text as the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def protocol_keys() -> str:
    """Return the page of every key of a protocol, from its schema."""
    whole = schema.Protocol.model_json_schema()
    models = {name: content for name, content in whole["$defs"].items() if name in _SECTIONS}
    lost = set(whole["$defs"]) - set(_SECTIONS)
    if lost:
        raise ValueError(f"docs/reference.py has no title for {', '.join(sorted(lost))}; add one.")
    parts = [
        f"## {title}\n\n{_first(section(name).__doc__)}\n\n"
        + rows_table(["Key", "Type", "Default", "Meaning"], _rows(section(name), models[name]))
        for name, title in _SECTIONS.items()
    ]
    return _KEYS + "\n\n".join(parts) + "\n"


def section(name: str) -> Any:
    """Return the model of a section of a protocol."""
    files = (schema, seeds, task, training, report, limits)
    return next(getattr(file, name) for file in files if hasattr(file, name))


def _first(text: str | None) -> str:
    """Return a docstring as Markdown."""
    return inspect.cleandoc(text or "").replace("``", "`")


def _rows(model: Any, content: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    required = content.get("required", ())
    comments = field_comments(inspect.getsource(model))
    for key, facts in content["properties"].items():
        place = f"{model.__name__}.{key}"
        meaning = _MEANINGS.get(place) or comments.get(key, "")
        if not meaning:
            raise ValueError(f"{place} has no comment in its source; write what it means.")
        default = "required" if key in required else _default(facts.get("default"))
        yield f"`{key}`", _cell(_kind(facts)), default, _cell(meaning)


def field_comments(source: str) -> dict[str, str]:
    """Return the comments of the fields of a class: on their lines, or on those before them."""
    comments: dict[str, str] = {}
    above: list[str] = []
    last = ""
    for line in map(str.strip, source.splitlines()):
        field = re.match(r"(\w+): .*?(?:  # (.*))?$", line)
        if line.startswith("# "):
            above.append(line[2:])
        elif field is not None:
            last = field[1]
            comments[last] = " ".join([*above, *([field[2]] if field[2] else [])])
            above = []
        elif line.startswith(")  # ") and last:  # of a field that takes several lines
            comments[last] = line[5:]
        elif line:
            above = []
    return comments


def _default(value: Any) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value!r}`".replace("'", '"')


def _kind(facts: Mapping[str, Any]) -> str:
    """Return the type of a key as words, with its bounds."""
    options = [option for option in facts.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return " or ".join(_kind(option) for option in options)
    if "$ref" in facts:
        name = facts["$ref"].rsplit("/", 1)[1]
        title = _SECTIONS[name]
        return "table" if "," in title else f"table {title}"
    if "enum" in facts or "const" in facts:
        return " or ".join(f'"{value}"' for value in facts.get("enum", [facts.get("const")]))
    kind = facts.get("type", "any")
    if kind == "array":
        kind, comma, bounds = _kind(facts.get("items", {})).partition(",")
        return f"list of {kind}s{comma}{bounds}"
    if kind == "object":
        inner = facts.get("additionalProperties")
        return f"table of {_kind(inner)}" if isinstance(inner, dict) else "table"
    return f"{kind}{_bounds(facts)}"


def _bounds(facts: Mapping[str, Any]) -> str:
    words = {"minimum": "at least", "maximum": "at most"}
    words |= {"exclusiveMinimum": "above", "exclusiveMaximum": "below"}
    texts = [f"{word} {_number(facts[key])}" for key, word in words.items() if key in facts]
    return f", {' and '.join(texts)}" if texts else ""


def _number(value: float) -> str:
    if value == 1 << 63:
        return "2^63"
    return f"{value:,.0f}" if value == int(value) and value < 1e9 else f"{value:g}"


def spaces() -> str:
    """Return a table of what every environment shows on every interface."""
    rows = []
    for env_id in gallery.environments():
        engine = Engine(env_id)
        stem = engine.spec.module.rsplit(".", 1)[1]
        rows.append(
            (
                f"[{engine.spec.name}](environments/{stem}.md)",
                str(len(engine.agents)),
                _shape(engine.observation_spaces),
                _shape(engine.action_spaces),
                str(engine.horizon),
                ", ".join(f"`{key}`" for key in info_keys(engine)),
            )
        )
    names = ["Environment", "Agents", "Observation", "Action", "Horizon", "Keys of `info`"]
    return rows_table(names, rows)


def info_keys(engine: Engine) -> list[str]:
    """Return the keys of ``info`` in a game: those of every game first."""
    keys = ["rewards", "metrics"]
    keys += ["action_mask", "invalid_actions"] if engine.discrete else []
    keys += ["alive"] if engine.falling else []
    return keys + list(engine.info())


def _shape(spaces: list[Any]) -> str:
    texts = dict.fromkeys(
        f"{list(space.shape)}" if hasattr(space, "low") else f"{space.n} choices"
        for space in spaces
    )
    return " or ".join(texts)
