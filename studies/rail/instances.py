"""Instances of the railway protocols: exported environments of flatland-rl as files with checksums.

    python -m studies.rail.instances rail-published-1 FOLDER

The folder is what ``studies/rail/export_flatland.py`` has written. Every test with ten levels
becomes a file in ``protocols/instances.zip`` and a task of the protocol, whose file is written anew
from its line ``# Tasks`` on; tests with fewer levels are left out.
"""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from coopbench_envs.arrays import pack
from coopbench_envs.rail import importing
from studies import archive

PROTOCOLS = Path(__file__).resolve().parents[2] / "protocols"
LEVELS = 10
MARK = "# Tasks\n"
GROUPS = ((50, "few"), (100, "many"), (1000, "very-many"))  # by trains, below


def small(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays in the smallest types of whole numbers that hold them."""
    types = (np.int8, np.uint8, np.int16, np.uint16, np.int32)
    out = {}
    for name, values in arrays.items():
        low, high = values.min(initial=0), values.max(initial=0)
        fits = (t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max)
        out[name] = values.astype(next(fits))
    return out


def task(name: str, test: int, arrays: Mapping[str, np.ndarray], reward: str) -> str:
    """Write the instances of a test, and return its task as text."""
    file = f"{name.replace('-', '_')}_t{test:02}.npz"
    content = pack(small(arrays))
    archive.put(file, content)
    p = importing.task_of(arrays)
    trains = p["num_agents"]
    group = next(label for below, label in GROUPS if trains < below)
    speeds = ", ".join(f'"{speed}" = {share:g}' for speed, share in p["speeds"].items())
    parameters = [
        *(f"{key} = {p[key]}" for key in ("num_agents", "height", "width", "cities", "horizon")),
        f"speeds = {{ {speeds} }}",
        f"malfunction_rate = {p['malfunction_rate']}",
        f'reward = "{reward}"',
        'observation = "tree"',
    ]
    if p["malfunction_rate"]:
        parameters.append("malfunction_duration = [20, 50]")
    lines = [
        "[[task]]",
        f'id = "test_{test:02}"',
        f'group = "{group}"',
        f"axes = {{ test = {test}, trains = {trains} }}",
        'env = "coopbench/Rail-v0"',
        f"parameters = {{ {', '.join(parameters)} }}",
        "bounds = { low = -1.0, high = 0.0 }",
        f'instances = {{ file = "{file}", sha256 = "{hashlib.sha256(content).hexdigest()}" }}',
    ]
    print(f"{file}: {len(content):,} bytes, {trains} trains, up to {p['horizon']} steps")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write instances and tasks."""
    parser = argparse.ArgumentParser(description="Write the instances of a railway protocol.")
    parser.add_argument("protocol")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reward", default="timetable")
    options = parser.parse_args()
    tasks = []
    for folder in sorted(options.folder.glob("Test_*")):
        test = int(folder.name.removeprefix("Test_"))
        if len(list(folder.glob("*.npz"))) < LEVELS:
            print(f"{folder}: fewer than {LEVELS} levels, left out")
            continue
        arrays = importing.read_folder(folder)
        importing.check(arrays)
        tasks.append(task(options.protocol, test, arrays, options.reward))
    file = PROTOCOLS / f"{options.protocol}.toml"
    head, mark, _ = file.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise SystemExit(f"{file} has no line '# Tasks' behind which tasks are written")
    file.write_text(head + MARK + "\n" + "\n".join(tasks), encoding="utf-8")


if __name__ == "__main__":
    main()
