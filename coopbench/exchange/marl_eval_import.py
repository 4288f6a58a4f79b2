"""Import of results in marl-eval JSON, read strictly: a file, or a folder of them.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL", as their public package marl-eval reads it: environment, task, algorithm,
run, then evaluations with a ``step_count``, and ``absolute_metrics``; every metric is a list of
values. Mava and BenchMARL write a file for each run.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import Evaluation, Reading, Run, read_import, visible

_Member = TypeVar("_Member")
_Named = Annotated[dict[str, _Member], Field(min_length=1)]
_FORM = "environment / task / algorithm / run / evaluation / metric: [numbers]"  # of a file
_SHOWN = 40  # characters of a wrong value


def _whole(value: Any) -> Any:
    """Return a whole number as an integer, whichever way JSON spells it, and all else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Step = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=1 << 63)]


class _Part(BaseModel):
    """An evaluation, or the absolute metrics."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Annotated[list[float], Field(min_length=1), FailFast()]]
    step_count: _Step | None = None
    elapsed_time: Any = None  # which is no metric

    @property
    def samples(self) -> dict[str, np.ndarray]:
        """The values of every metric."""
        return {name: np.array(values) for name, values in self.__pydantic_extra__.items()}


_FILE = TypeAdapter(_Named[_Named[_Named[_Named[_Named[_Part]]]]])


def read_marl_eval(file: Path) -> Reading:
    """Read the runs of a file, with names as they are spelled there.

    Raises ``FileNotFoundError`` if there is none, and ``ValueError`` if it is too large, is not
    JSON of this form, or contradicts itself; the message names environment, task, algorithm, run
    and evaluation.
    """
    try:
        content = _FILE.validate_python(_json(file))
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False)[0]
        place, value = " / ".join(map(str, problem["loc"])) or "the file", problem["input"]
        given = "" if isinstance(value, (dict, list)) else f" (given {repr(value)[:_SHOWN]})"
        wrong = problem["msg"].partition(" or instance")[0]
        raise ValueError(
            f"{file}: {place}: {wrong}{given}; JSON of marl-eval has {_FORM}."
        ) from None
    return Reading(
        tuple(
            _run((environment, task, algorithm, name), parts, str(file))
            for environment, tasks in content.items()
            for task, algorithms in tasks.items()
            for algorithm, runs in algorithms.items()
            for name, parts in runs.items()
        )
    )


def read_marl_eval_folder(folder: Path) -> Reading:
    """Read the runs of all .json files below a folder; others are left out and listed."""
    runs = list[Run]()
    files, left_out = visible(folder, "*.[jJ][sS][oO][nN]")
    for file in files:
        try:
            runs += read_marl_eval(file).runs
        except ValueError as error:
            left_out.append(str(error).removesuffix("."))
    return Reading(tuple(runs), tuple(left_out))


def _json(file: Path) -> Any:
    try:
        return json.loads(read_import(file), object_pairs_hook=_members_once)
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply; allowed: seven levels.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}.") from None
    except ValueError as error:  # a repeated name, text that is not UTF-8, or a file's size
        raise ValueError(f"{file} cannot be read: {error}") from None


def _members_once(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, with clean names; raise if one is repeated."""
    table: dict[str, Any] = {}
    for written, member in members:
        name = one_line(written)
        if name in table:
            raise ValueError(f"an object has {name!r} twice; remove one.")
        table[name] = member
    return table


def _run(labels: tuple[str, str, str, str], parts: Mapping[str, _Part], file: str) -> Run:
    """Return a run; raise for an empty name, steps that do not rise, or two absolute metrics."""
    where = f"{file}: {' / '.join(labels)}"
    for what, label in zip(("environment", "task", "algorithm"), labels, strict=False):
        if not label.strip():
            raise ValueError(f"{where}: the name of the {what} is empty; name it.")
    final = [name for name in parts if "absolute" in name.lower()]
    if len(final) > 1:
        raise ValueError(
            f"{where} has {', '.join(final)}; allowed: one with 'absolute' in its name."
        )
    evaluations, last = list[Evaluation](), -1
    for name, part in parts.items():
        if name in final:
            continue
        if not part.samples:
            raise ValueError(f"{where} / {name} has no metric; allowed: lists of numbers by name.")
        if part.step_count is None or part.step_count <= last:
            raise ValueError(
                f"{where} / {name}: step_count is {part.step_count}; allowed: one above {last}, "
                f"because steps rise from evaluation to evaluation."
            )
        last = part.step_count
        evaluations.append(Evaluation(last, part.samples))
    absolute = parts[final[0]].samples if final else {}
    return Run(*labels, tuple(evaluations), absolute, file)
