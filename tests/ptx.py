"""What the code of a GPU consists of, without a GPU.

    python tests/ptx.py [--arch 90] [--no-ptxas] [ID ...]

compiles the programs of environments (default: all) as an engine loads them, and prints one line of
JSON for each. It needs the extra ``cuda``.
"""

import argparse
import importlib.util
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

from fake_gpu import FakeGpu

from coopbench_envs import engine, ids
from coopbench_envs.cuda.arguments import Packed
from coopbench_envs.cuda.assembling import assembler
from coopbench_envs.cuda.ptx import parameter_bytes, parameters, ptx_of

# Sizes at which the code is compiled: as small as the environment allows, the code is the same.
SMALL = {"Routing-v0": {"num_agents": 2}, "Routing-v1": {"num_agents": 2}}
COUNTED = {
    "fma": r"\bfma\.rn\.f\d+",  # contracted, or a function of a mathematical library
    "approximate": r"\b\w+\.approx\.\S+",
    # Between variables these differ from Python's beside a NaN and between zeros; where one is a
    # number of the code, the compiler has seen that the result is that of compare and select.
    "minmax": r"\b(?:min|max)\.f\d+ [^;]*, %f\w+;",
    "call": r"\bcall\b",
    "inexact": r"\b(?:div|sqrt|add|sub|mul)\.(?:full|ftz|rz|rm|rp)\S*",
}
_LOCAL = re.compile(r"\.local[^;]*\[(\d+)\];")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLED = re.compile(r"(\d+) bytes spill stores")


class Compiler(FakeGpu):
    """A GPU that compiles what it is to load, and launches nothing."""

    def __init__(self, ordinal=0, arch=(9, 0)):
        super().__init__(ordinal)
        self.arch, self.texts = arch, {}

    def load(self, program):
        text = ptx_of(program, self.arch)
        self.texts[program.template.__name__] = text
        assert parameters(text) == Packed(program.arguments).sizes
        return text, program

    def launch(self, function, lanes, parameters, stream):
        pass


def missing():
    """Say what of the extra is not installed; empty if everything is."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "numba-cuda of the extra 'cuda' is not installed"
    return "" if assembler() else "ptxas of the extra 'cuda' is not installed"


def texts_of(env_id, arch=(9, 0), lanes=64, **parameters):
    """Return the PTX of all programs that an engine of this environment loads, by name."""
    compiler = Compiler(arch=arch)
    opened, engine.open_gpu = engine.open_gpu, lambda ordinal: compiler
    try:
        engine.Engine(env_id, lanes, device="cuda", **parameters)
    finally:
        engine.open_gpu = opened
    return compiler.texts


def facts(text):
    """Count in PTX what must not be there, and the bytes of its parameters."""
    counts = {name: len(re.findall(pattern, text)) for name, pattern in COUNTED.items()}
    counts["local_bytes"] = sum(map(int, _LOCAL.findall(text)))
    return counts | {"parameter_bytes": parameter_bytes(text)}


def assembled(text, arch, folder):
    """Let ptxas assemble PTX; return the registers of a thread and the bytes that it spills."""
    source = Path(folder) / "program.ptx"
    source.write_text(text, encoding="ascii")
    target = f"-arch=sm_{arch[0]}{arch[1]}"
    done = subprocess.run(
        [assembler(), "-v", target, source, "-o", source.with_suffix(".cubin")],
        capture_output=True,
        text=True,
        check=True,
    )
    output = done.stdout + done.stderr
    return {
        "registers": int(_REGISTERS.search(output)[1]),
        "spilled": int(_SPILLED.search(output)[1]),
    }


def main():
    """Print what the programs of environments consist of."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--arch", default="90")
    parser.add_argument("--no-ptxas", action="store_true")
    options = parser.parse_args()
    arch = (int(options.arch[:-1]), int(options.arch[-1]))
    for name in options.ids or [name for name in ids() if name.startswith("coopbench/")]:
        start = time.process_time()
        text = texts_of(name, arch, **SMALL.get(name.split("/")[-1], {}))["play"]
        row = {"id": name, "seconds": round(time.process_time() - start, 1)} | facts(text)
        if not options.no_ptxas:
            with tempfile.TemporaryDirectory() as folder:
                row |= assembled(text, arch, folder)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
