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
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from results_folder import sign

import coopbench
from coopbench.files import gunzipped, gzipped

Attack = Callable[[Path, np.random.Generator], None]
CELL, MINE = "dilemma/random", "dilemma/mine"
RESULTS = f"{MINE}/results.jsonl.gz"
SKIRMISH = {"env": "coopbench/Skirmish-v1", "parameters": {"map_file": "/etc/hostname"}}
ARRAYS = ("curves.npz", "trace.npz", "actions.npz")


@cache
def bomb(size: int, name: str = "steps") -> bytes:
    """Return a small npz file that unpacks to ``size`` bytes of zeros."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size // 8},), }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{name}.npy", "w") as member,
    ):
        member.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        for _ in range(size >> 20):
            member.write(bytes(1 << 20))
    return buffer.getvalue()


def bombs(name: str, size: int) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        (root / MINE / name).write_bytes(bomb(size))
        sign(root)

    return attack


def cut(root: Path, rng: np.random.Generator) -> None:
    """Shorten an array file."""
    file = root / MINE / str(rng.choice(ARRAYS))
    content = file.read_bytes()
    file.write_bytes(content[: int(rng.integers(0, len(content)))])
    sign(root)


def many_arrays(root: Path, rng: np.random.Generator) -> None:
    """Store very many empty arrays in one file."""
    np.savez(root / MINE / "trace.npz", **{f"a{k}": np.zeros(0) for k in range(3000)})
    sign(root)


def flipped(root: Path, rng: np.random.Generator) -> None:
    """Flip bits of a file, with all digests made to fit."""
    names = ("results.jsonl.gz", *ARRAYS)
    file = root / MINE / str(rng.choice(names))
    content = bytearray(file.read_bytes())
    for k in rng.integers(0, len(content), 4):
        content[k] ^= int(rng.integers(1, 256))
    file.write_bytes(content)
    sign(root)


def link(target: str) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / MINE / str(rng.choice(("meta.json", "results.jsonl.gz", *ARRAYS)))
        file.unlink()
        file.symlink_to(target)

    return attack


def pipe(root: Path, rng: np.random.Generator) -> None:
    """Put a pipe, which never ends, in the place of a file."""
    names = ("meta.json", "results.jsonl.gz", *ARRAYS)
    places = [f"{MINE}/{name}" for name in names] + ["manifest.json", "report.json"]
    file = root / str(rng.choice(places))
    file.unlink(missing_ok=True)
    os.mkfifo(file)


def folder(root: Path, rng: np.random.Generator) -> None:
    """Put a folder in the place of a file."""
    file = root / MINE / str(rng.choice(("results.jsonl.gz", *ARRAYS)))
    file.unlink()
    file.mkdir()


def writes(place: str, content: bytes) -> Attack:
    def attack(root: Path, rng: np.random.Generator) -> None:
        (root / place).write_bytes(content)
        if place.startswith(MINE) and not place.endswith("meta.json"):
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
        file = root / MINE / "meta.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | changes))
        sign(root)

    return attack


def raised(place: str) -> Attack:
    """Raise the return of one episode of a policy."""

    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / place / "results.jsonl.gz"
        rows = [json.loads(line) for line in gunzipped(file.read_bytes()).splitlines()]
        row = rows[int(rng.integers(len(rows)))]
        row["returns"][0] += float(rng.choice((1e-9, 0.1, 1e3)))
        file.write_bytes(gzipped("".join(json.dumps(row) + "\n" for row in rows).encode()))
        sign(root)

    return attack


def copied(name: str, **changes: Any) -> Attack:
    """Show the cell of one policy a second time under another name."""

    def attack(root: Path, rng: np.random.Generator) -> None:
        target = root / "dilemma" / name
        shutil.copytree(root / MINE, target)
        meta = json.loads((target / "meta.json").read_bytes())
        (target / "meta.json").write_text(json.dumps(meta | changes))
        sign(root)

    return attack


def crowd(root: Path, rng: np.random.Generator) -> None:
    """Add very many cells that are none."""
    for k in range(500):
        place = root / "dilemma" / f"p{k}"
        place.mkdir()
        (place / "meta.json").write_bytes(b"{}")


def report(**changes: Any) -> Attack:
    """Lie in the checklist of the report, and say something of the report itself."""

    def attack(root: Path, rng: np.random.Generator) -> None:
        file = root / "report.json"
        content = json.loads(file.read_bytes())
        content["checklist"][0]["detail"] = "Independently audited."
        file.write_text(json.dumps(content | changes))

    return attack


def without_actions(root: Path, rng: np.random.Generator) -> None:
    """Remove the actions by which a policy is played again."""
    (root / MINE / "actions.npz").unlink()
    file = root / MINE / "meta.json"
    meta = json.loads(file.read_bytes())
    del meta["sha256"]["actions.npz"]
    file.write_text(json.dumps(meta))
    sign(root)


ATTACKS: dict[str, Attack] = {
    **{f"bomb {name}": bombs(name, 1 << 27) for name in ARRAYS},
    "cut": cut,
    "many arrays": many_arrays,
    "flipped": flipped,
    "link to zeros": link("/dev/zero"),
    "link to itself": link("meta.json"),
    "pipe": pipe,
    "folder": folder,
    "long line": writes(RESULTS, gzipped(b"[" * (1 << 21))),
    "lists": writes(RESULTS, gzipped(b'{"episode":[' + b"[]," * 300_000 + b"[]]}\n")),
    "lines": writes(RESULTS, gzipped(b"{}\n" * 300_000)),
    "packed lines": writes(RESULTS, gzip.compress(bytes(1 << 28), mtime=0)),
    "other lines": writes(f"{MINE}/results.jsonl", b"{}\n"),
    "endless lines": sparse(RESULTS, 1 << 40),
    "deep metadata": writes(f"{MINE}/meta.json", b'{"a":' * 200_000),
    "wide metadata": writes(f"{MINE}/meta.json", b'{"a":[' + b"[]," * 1_300_000 + b"[]]}"),
    "wide manifest": writes("manifest.json", b'{"cells":[' + b"{}," * 5_000_000 + b"{}]}"),
    "sparse manifest": sparse("manifest.json", 1 << 24),
    "wide report": writes("report.json", b'{"estimates":[' + b"[]," * 10_000_000 + b"[]]}"),
    "deep report": writes("report.json", b"[" * 3_000_000),
    "numbers in the report": writes("report.json", b"[" + b"9" * 10_000_000 + b"]"),
    "wide protocol": writes("protocol.json", b'{"task":[' + b"{}," * 2_500_000 + b"{}]}"),
    "many tasks": protocol(lambda p: p.update(task=p["task"] * 5000)),
    "long game": protocol(lambda p: p["task"][0]["parameters"].update(horizon=10**12)),
    "file of a map": protocol(lambda p: p["task"][0].update(SKIRMISH)),
    "report of another version": report(versions={"coopbench": "0.0.1"}),
    "invisible": copied("mi-ne@00000000", policy="mi\u3164ne"),
    "odd episodes": metadata(episodes=10**15),
    "odd agents": metadata(agents=["a"] * 40_000),
    "odd recorded": metadata(recorded=list(range(40_000))),
    "odd step": metadata(chosen_step=10**15),
    "odd sums": metadata(sha256={}),
    "odd training": metadata(training={"steps": 10**18, "interval": 1, "chosen_step": 10**18}),
    "raised": raised(MINE),
    "no actions": without_actions,
    "look-alike": copied("R\u0430ndom", policy="r\u0430ndom"),
    "another policy": copied("tit_for_tat", policy="tit_for_tat"),
    "another learner": copied("ippo/run-3", policy="ippo", run=3, training=None),
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
