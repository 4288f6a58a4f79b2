"""Hostile results folders: one honest folder, changed in as many ways as asked for, and verified.

Run as ``python hostile_folders.py HONEST PLACE COUNT`` under limits of memory and processor time.
Every folder is removed again. Prints one line of JSON: what held, and the peak of memory.
"""

import gzip
import io
import json
import os
import resource
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from results_folder import LEARNED, sign

import coopbench
from coopbench_envs.arrays import pack

Attack = Callable[[Path, np.random.Generator], None]
RESULTS = f"{LEARNED}/episodes.npz"
ARRAYS = ("episodes.npz", "actions.npz")


@cache
def bomb(size: int) -> bytes:
    """Return a small npz file that unpacks to ``size`` bytes of zeros."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (size // 8,)}
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("steps.npy", "w") as member,
    ):
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


def bombs(name: str, size: int) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        (root / LEARNED / name).write_bytes(bomb(size))
        sign(root)

    return attack


def many_arrays(root: Path, rng: np.random.Generator) -> None:
    """Store very many empty arrays in one file."""
    np.savez(root / LEARNED / "episodes.npz", **{f"a{k}": np.zeros(0) for k in range(3000)})
    sign(root)


def flipped(root: Path, rng: np.random.Generator) -> None:
    """Flip bits of a file, with all digests made to fit."""
    file = root / LEARNED / str(rng.choice(ARRAYS))
    content = bytearray(file.read_bytes())
    for k in rng.integers(0, len(content), 4):
        content[k] ^= int(rng.integers(1, 256))
    file.write_bytes(content)
    sign(root)


def link(target: str) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / LEARNED / str(rng.choice(("meta.json", *ARRAYS)))
        file.unlink()
        file.symlink_to(target)

    return attack


def pipe(root: Path, rng: np.random.Generator) -> None:
    """Put a pipe, which never ends, in the place of a file."""
    names = ("meta.json", *ARRAYS)
    places = [f"{LEARNED}/{name}" for name in names] + ["manifest.json", "report.json"]
    file = root / str(rng.choice(places))
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def folder(root: Path, rng: np.random.Generator) -> None:
    """Put a folder in the place of a file."""
    file = root / LEARNED / str(rng.choice(ARRAYS))
    file.unlink()
    file.mkdir()


def writes(place: str, content: bytes) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        (root / place).write_bytes(content)
        if place.startswith(LEARNED) and not place.endswith("meta.json"):
            sign(root)

    return attack


def sparse(place: str, size: int) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        with (root / place).open("wb") as file:
            file.truncate(size)

    return attack


def protocol(change: Callable[[dict[str, Any]], object]) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / "protocol.json"
        content = json.loads(file.read_bytes())
        change(content)
        file.write_text(json.dumps(content))

    return attack


def metadata(**changes: Any) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / LEARNED / "meta.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | changes))
        sign(root)

    return attack


def crowd(root: Path, rng: np.random.Generator) -> None:
    """Add very many cells that are none."""
    for k in range(500):
        place = root / "dilemma" / f"p{k}"
        place.mkdir()
        (place / "meta.json").write_bytes(b"{}")


ATTACKS: dict[str, Attack] = {
    **{f"bomb {name}": bombs(name, 1 << 27) for name in ARRAYS},
    "many arrays": many_arrays,
    "flipped": flipped,
    "link to zeros": link("/dev/zero"),
    "link to itself": link("meta.json"),
    "pipe": pipe,
    "folder": folder,
    "no arrays": writes(RESULTS, pack({})),
    "packed zeros": writes(RESULTS, gzip.compress(bytes(1 << 28), mtime=0)),
    "endless arrays": sparse(RESULTS, 1 << 40),
    "names of series": metadata(arrays={"metrics": ["a"] * 40_000}),
    "deep metadata": writes(f"{LEARNED}/meta.json", b'{"a":' * 200_000),
    "wide metadata": writes(f"{LEARNED}/meta.json", b'{"a":[' + b"[]," * 1_300_000 + b"[]]}"),
    "wide manifest": writes("manifest.json", b'{"cells":[' + b"{}," * 5_000_000 + b"{}]}"),
    "sparse manifest": sparse("manifest.json", 1 << 24),
    "wide report": writes("report.json", b'{"estimates":[' + b"[]," * 10_000_000 + b"[]]}"),
    "deep report": writes("report.json", b"[" * 3_000_000),
    "numbers in the report": writes("report.json", b"[" + b"9" * 10_000_000 + b"]"),
    "wide protocol": writes("protocol.json", b'{"task":[' + b"{}," * 2_500_000 + b"{}]}"),
    "many tasks": protocol(lambda p: p.update(task=p["task"] * 5000)),
    "long game": protocol(lambda p: p["task"][0]["parameters"].update(horizon=10**12)),
    "nested metadata": metadata(hyperparameters={"a": json.loads("[" * 600 + "]" * 600)}),
    "odd episodes": metadata(episodes=10**15),
    "odd agents": metadata(agents=["a"] * 40_000),
    "odd recorded": metadata(recorded=list(range(40_000))),
    "odd step": metadata(chosen_step=10**15),
    "odd training": metadata(training={"steps": 10**18, "interval": 1, "chosen_step": 10**18}),
    "crowd": crowd,
}


def checked(honest: Path, place: Path, count: int) -> Iterator[str]:
    """Yield what was done to folders that hold nevertheless."""
    names = list(ATTACKS)
    for number in range(count):
        name = names[number % len(names)]
        root = Path(shutil.copytree(honest, place / "hostile"))
        ATTACKS[name](root, np.random.default_rng(number))
        try:
            result = coopbench.verify(root)
            json.loads(result.to_json())
            if result.holds:
                yield name
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    held = list(checked(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"held": held, "megabytes": peak}))
