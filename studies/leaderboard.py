"""Place a results folder on the leaderboard of the documentation, once it is verified.

    python -m studies.leaderboard FOLDER NAME

Every episode of the folder is checked as ``coopbench verify`` does it; the protocol has to be one
of this package, unchanged. The standings are stored in ``benchmarks/leaderboard``, as a file
``PROTOCOL/NAME.json`` from which ``docs/generate.py`` makes the page.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import coopbench
from coopbench.files import write_text
from studies.reference import ROOT

PLACED = ROOT / "benchmarks" / "leaderboard"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def place(folder: str | Path, name: str, placed: Path = PLACED) -> Path:
    """Verify a results folder, store its standings below ``placed``, and return their file.

    Raises ``ValueError`` if the name is not of lower-case letters, digits and hyphens, if the
    folder does not verify, and if its protocol is not one of this package, unchanged.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"The name was {name!r}; allowed: lower-case letters, digits, hyphens.")
    standings = coopbench.leaderboard([folder])
    protocol, known = standings.protocol, coopbench.protocol_names()
    own = protocol.protocol.name
    if own not in known or coopbench.load_protocol(own) != protocol:
        raise ValueError(
            f"{folder} has the protocol {own!r}, which this package has not in this form; allowed: "
            f"{', '.join(known)}, unchanged."
        )
    file = placed / own / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, standings.to_json())
    return file


def entries(protocol: str, placed: Path = PLACED) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all placed standings of a protocol, by name."""
    files = sorted((placed / protocol).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["rows"] for file in files}


def main() -> None:
    """Place the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="results of coopbench evaluate or train", metavar="FOLDER")
    parser.add_argument("name", help="of the entry: who played, or the publication", metavar="NAME")
    arguments = parser.parse_args()
    try:
        file = place(arguments.folder, arguments.name)
    except (ValueError, FileNotFoundError) as error:
        parser.exit(1, f"Error: {error}\n")
    print(f"{file.relative_to(ROOT)} is stored. Run python docs/generate.py and commit both.")


if __name__ == "__main__":
    main()
