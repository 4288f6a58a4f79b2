"""Bounds of a protocol's tasks, from the certificates of their games.

    python -m studies.bounds coopetition-standard
    python -m studies.bounds coopetition-standard --write protocols/coopetition-standard.toml

prints one line per task, as the protocol's file holds it, or writes the bounds into that file.
Tasks whose games have no certificate stay as they are.
``python -m studies.certificates GAME --out baselines/certificates/GAME.json`` makes certificates.
"""

import re
import sys
from pathlib import Path

from coopbench.protocol.loading import load_protocol
from coopbench_envs.registration import spec
from studies.certificates.games import load_certificate
from studies.certificates.pages import bounds_text


def bounds(name: str) -> dict[str, dict[str, float]]:
    """Return the bounds of all tasks whose games have a certificate, as protocols hold them."""
    protocol = load_protocol(name)
    certified: dict[str, dict[str, float]] = {}
    for env_id in dict.fromkeys(spec(task.env).id for task in protocol.task):
        try:
            certified |= load_certificate(env_id).bounds()
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
    table: dict[str, dict[str, float]] = {}
    for task in protocol.task:
        if task.id in certified:
            table[task.id] = {key: round(value, 4) for key, value in certified[task.id].items()}
    return table


def written(text: str, table: dict[str, dict[str, float]]) -> str:
    """Return the text of a protocol's file with the bounds of its tasks replaced."""
    head, *tasks = re.split(r"(?m)^(?=\[\[task\]\])", text)
    for place, task in enumerate(tasks):
        name = re.search(r'(?m)^id = "([^"]+)"', task)
        if name is not None and name[1] in table:
            tasks[place] = re.sub(r"(?m)^bounds = .*$", bounds_text(table[name[1]]), task)
    return "".join([head, *tasks])


def main() -> None:
    """Print one line per task, or write the bounds into a file."""
    protocol = sys.argv[1] if len(sys.argv) > 1 else "coopetition-standard"
    table = bounds(protocol)
    if "--write" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--write") + 1])
        path.write_text(written(path.read_text(encoding="utf-8"), table), encoding="utf-8")
    for task, numbers in table.items():
        print(f"{task:<40} {bounds_text(numbers)}")


if __name__ == "__main__":
    main()
