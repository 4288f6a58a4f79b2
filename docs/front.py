"""Hook of the documentation build: what the start page and the environments' pages open with.

The start page has a moving picture of every environment instead of the line ``<!-- gallery -->``.
The page of an environment has its moving picture below its title, and an example of its use before
its facts. Both follow the registry, so that a new environment needs no entry here.
"""

import importlib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import gallery
import plots

import coopbench_envs

ROOT = Path(__file__).resolve().parent.parent
_BLANK = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 5"/>'
_QUESTION = re.compile(r"^\*\*The question\.\*\* (.*?)\n\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[(.*?)\]\(.*?\)")
_FACTS = "<!-- generated: begin -->"
_FAMILIES = {
    "coopbench_envs.coopetition.ventures": "Ventures: trust under noise, with certificates",
    "coopbench_envs.coopetition.published": "Coopetition, as published",
    "coopbench_envs.pathfinding": "Pathfinding",
    "coopbench_envs.skirmish": "Battles",
    "coopbench_envs.rail": "Railways",
}


def on_config(config: Any) -> Any:
    """Link to the repository if its address is configured in pyproject.toml."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    address = content["tool"]["coopbench"]["repository"]
    if address:
        config.repo_url, config.repo_name = address, "Repository"
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a blank picture for every one that has not been drawn; 'make docs' draws them first."""
    from mkdocs.structure.files import File

    pictures = {f"gallery/{name}" for name in gallery.names()}
    pictures |= {f"environments/plots/{name}" for name in plots.names()}
    for place in sorted(pictures - set(files.src_uris)):
        files.append(File.generated(config, place, content=_BLANK))
    return files


def on_page_markdown(text: str, page: Any, **context: Any) -> str:
    """Add the pictures to the start page, and picture and example to an environment's page."""
    place = page.file.src_uri
    if "<!-- gallery -->" in text:
        return text.replace("<!-- gallery -->", tiles("../" * place.count("/")))
    env_id = pages().get(place)
    return text if env_id is None else opened(text, env_id)


@cache
def pages() -> Mapping[str, str]:
    """Return the environments by the places of their pages."""
    return {f"environments/{gallery.stem(env_id)}.md": env_id for env_id in gallery.environments()}


def question(env_id: str) -> str:
    """Return the question that a game asks, from its page; else the first line of its module."""
    page = ROOT / "docs" / "environments" / f"{gallery.stem(env_id)}.md"
    match = _QUESTION.search(page.read_text(encoding="utf-8"))
    if match is not None:
        return match[1].replace("\n", " ")
    module = importlib.import_module(coopbench_envs.spec(env_id).module)
    return (module.__doc__ or "").split("\n", 1)[0].split(": ", 1)[-1]


def tiles(up: str) -> str:
    """Return the pictures of all environments by family, as links to their pages."""
    families: dict[str, list[str]] = {title: [] for title in _FAMILIES.values()}
    for env_id in gallery.environments():
        families.setdefault(_family(env_id), []).append(_tile(env_id, up))
    return "\n\n".join(
        f'### {title}\n\n<div class="gallery" markdown>\n\n' + "\n\n".join(members) + "\n\n</div>"
        for title, members in families.items()
        if members
    )


def _family(env_id: str) -> str:
    module = coopbench_envs.spec(env_id).module
    names = [title for package, title in _FAMILIES.items() if module.startswith(f"{package}.")]
    return names[0] if names else "Further environments"


def _tile(env_id: str, up: str) -> str:
    name, stem = coopbench_envs.spec(env_id).name, gallery.stem(env_id)
    image = f"![Moving picture of {name}]({up}gallery/{stem}.webp){{ loading=lazy }}"
    return f"[{image}**{name}**{_plain(question(env_id))}]({up}environments/{stem}.md)"


def _plain(text: str) -> str:
    """Return the text of Markdown with links, which cannot stand in another link."""
    return f"<span>{_LINK.sub(lambda link: link[1], text)}</span>"


def opened(text: str, env_id: str) -> str:
    """Return an environment's page with its picture and its example."""
    title, _, rest = text.partition("\n")
    moving = (
        f"![Moving picture of {coopbench_envs.spec(env_id).name}]"
        f"(../gallery/{gallery.stem(env_id)}.webp){{ .moving }}\n\n"
        f"{gallery.caption(env_id)}\n{{ .caption }}"
    )
    match = _QUESTION.search(rest)
    place = match.end() if match else 0
    rest = f"{rest[:place]}{moving}\n\n{rest[place:]}"
    whole = f"{title}\n\n{rest}"
    return whole.replace(_FACTS, f"{example(env_id)}\n\n{_FACTS}", 1)


def example(env_id: str) -> str:
    """Return the first lines of code with an environment, and a command."""
    name, policy = coopbench_envs.spec(env_id).name, gallery.policy_of(env_id)
    return f"""```python
import gymnasium
import coopbench_envs  # registers the environments

env = gymnasium.make("{env_id}")
observation, info = env.reset(seed=0)
action = env.action_space.sample()
observation, reward, terminated, truncated, info = env.step(action)
```

```sh
coopbench evaluate {name} -p random -p {policy}
```

[Interfaces](../interfaces.md) describes the batched, focal and PettingZoo forms of the environment.
"""
