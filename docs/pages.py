"""Hook of the documentation build: pages that are made from other files and from the code.

CONTRIBUTING.md and CHANGELOG.md of the repository become pages of the site. ``api.md`` lists the
public names of ``coopbench`` and ``coopbench_envs`` with their signatures and docstrings,
``commands.md`` all commands and ``protocol-keys.md`` all keys of a protocol; the folder
``protocols`` has a page for each protocol, and ``certificates`` for each certificate. They are made
at every build, so that a changed docstring needs no other file to be written again. The pages of
the folder ``results`` get their full tables.
"""

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import certificate_pages
import hyperparameter_page
import protocol_pages
import reference
import results_pages
import results_tables
import stored_results

ROOT = Path(__file__).resolve().parent.parent
COPIED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_SPACES = "<!-- spaces -->"
_WIDTH = 88  # of a signature, in characters
_INTRODUCTION = """# API reference

The public names of the two packages. Everything else may change between versions. Modules with
a documented interface of their own are described where they are used:
[statistics](statistics.md), [game theory](games.md), [exchange](exchange.md) and
[metrics](metrics.md).

In the signatures, a `PolicyLike` is the name of a policy, an object with `act`, or a function of
observations; `Fixed` around one says that it is no run of a learner. A `PolicyArgument`, which can
be evaluated, is a `PolicyLike`, `Trained`, `Checkpoints`, `Failed` or `TrainedRuns`.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files of the folder ``docs``."""
    from mkdocs.structure.files import File

    texts = {page: copied(name) for page, name in COPIED.items()}
    texts |= {
        page: make() for page, make in (MADE | results_tables.CHARTS | results_pages.CURVES).items()
    }
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    for picture in stored_results.pictures():
        place = f"results/{picture.parts[-3]}/{picture.name}"
        files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def on_page_markdown(text: str, page: Any, **context: Any) -> str:
    """Fill in the table of spaces, and the full tables of results."""
    name = results_pages.PAGES.get(page.file.src_uri)
    if name is not None:
        return results_pages.filled(text, name)
    return text.replace(_SPACES, reference.spaces()) if _SPACES in text else text


def copied(name: str) -> str:
    """Return a file of the repository as a page: its links lead to pages of the site."""
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def api() -> str:
    """Return the page of the public names."""
    import coopbench
    import coopbench_envs

    parts = [_INTRODUCTION]
    for package, names in ((coopbench, sorted(coopbench._PUBLIC)), (coopbench_envs, public())):
        parts.append(f"## {package.__name__}")
        parts += [entry(package.__name__, name, getattr(package, name)) for name in names]
    return "\n\n".join(parts) + "\n"


def public() -> list[str]:
    """Return the public names of ``coopbench_envs``."""
    import coopbench_envs

    return sorted(coopbench_envs.__all__)


def entry(package: str, name: str, value: Any) -> str:
    """Describe one public name; a class with its public methods."""
    parts = [f"### {name}", signature(f"{package}.{name}", value), docstring(value)]
    if inspect.isclass(value):
        for method, function in vars(value).items():
            member = inspect.unwrap(getattr(function, "__func__", function))
            if not method.startswith("_") and inspect.isfunction(member):
                parts += [signature(f"{name}.{method}", member), docstring(member)]
    return "\n\n".join(part for part in parts if part)


def signature(name: str, value: Any) -> str:
    """Return a code block with the signature, one parameter to a line if it is long."""
    whole = inspect.signature(value)
    parameters = [p for p in whole.parameters.values() if p.name != "self"]
    result = "" if inspect.isclass(value) else plain(str(whole).rpartition(")")[2])
    shown = whole.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    text = f"{name}{plain(str(shown))}{result}"
    if len(text) > _WIDTH:
        lines = [f"    {line},\n" for line in _lines(parameters)]
        text = f"{name}(\n{''.join(lines)}){result}"
    return f"```python\n{text}\n```"


def _lines(parameters: list[inspect.Parameter]) -> list[str]:
    lines: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not any(x.startswith("*") for x in lines):
            lines.append("*")
        lines.append(plain(str(parameter)))
    return lines


def plain(text: str) -> str:
    """Shorten annotations: types without their modules, unions by the names that they have."""
    for name, union in aliases().items():
        text = text.replace(union, name)
    return without_modules(text)


def without_modules(text: str) -> str:
    """Replace ``collections.abc.Sequence`` by ``Sequence``."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_]*)(?=[A-Z]|ndarray)", "", text)


@cache
def aliases() -> dict[str, str]:
    """Return the unions in signatures as {name: text}, the longest first."""
    from coopbench.playing import contestants

    names = ("PolicyArgument", "Model", "PolicyLike")
    return {name: str(getattr(contestants, name)) for name in names}


def docstring(value: Any) -> str:
    """Return a docstring as Markdown; errors become a list."""
    text = (inspect.getdoc(value) or "").replace("``", "`")
    body, _, raises = text.partition("\nRaises:\n")
    if not raises:
        return body.strip()
    errors = re.sub(r"\n {8}", " ", raises)
    errors = re.sub(r"^ {4}(\w+): ", r"- `\1`: ", errors, flags=re.MULTILINE)
    return f"{body.strip()}\n\nRaises:\n\n{errors.strip()}"


MADE = {
    "api.md": api,
    "commands.md": reference.commands,
    "protocol-keys.md": reference.protocol_keys,
    **certificate_pages.MADE,
    **hyperparameter_page.MADE,
    **protocol_pages.MADE,
}
