"""Assembling: from PTX to the machine code of one architecture, with ptxas of CUDA's toolkit.

A driver translates PTX itself, but only that of its own version or an older one, and for minutes
where a program is long. Machine code loads at once in every driver of the same major version.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from coopbench_envs import store
from coopbench_envs.cuda.ptx import cache_folder

__all__ = ["assembler", "machine_code"]


def assembler() -> Path | None:
    """Return the place of ptxas in the environment's packages or on the path, or None without it.

    The newest comes first: it takes the PTX of older compilers.
    """
    for name in ("nvidia.cu13", "nvidia.cuda_nvcc"):
        with suppress(ModuleNotFoundError):
            package = importlib.util.find_spec(name)
            for folder in (package.submodule_search_locations or ()) if package is not None else ():
                if (Path(folder) / "bin" / "ptxas").is_file():
                    return Path(folder) / "bin" / "ptxas"
    place = shutil.which("ptxas")
    return None if place is None else Path(place)


def machine_code(ptx: str, arch: tuple[int, int], registers: int | None = None) -> bytes | None:
    """Return PTX as machine code, from the cache on disk where it lies there.

    None without ptxas, and where it is older than what compiled the PTX: the driver may take it.
    ``registers`` is the largest number that a thread may have. Raises ``RuntimeError`` with the
    assembler's words for PTX that it does not take.
    """
    place = assembler()
    if place is None:
        return None
    target = f"sm_{arch[0]}{arch[1]}"
    options = [f"-arch={target}", "-fmad=false"]
    options += [] if registers is None else [f"-maxrregcount={registers}"]
    digest = hashlib.sha256(f"{options} {place.stat().st_size} {ptx}".encode()).hexdigest()[:24]
    kept, name = cache_folder(), f"run-{target}-{digest}.cubin"
    content = store.kept_file(kept, name)
    if content is not None:
        return content
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder) / "run.ptx", Path(folder) / "run.cubin"
        source.write_text(ptx, encoding="ascii")
        done = subprocess.run(
            [place, *options, source, "-o", code], capture_output=True, text=True, check=False
        )
        if "Unsupported .version" in done.stderr:
            return None
        if done.returncode:
            raise RuntimeError(f"ptxas does not assemble the code: {done.stderr.strip()}")
        content = code.read_bytes()
    store.keep_file(kept, name, content)
    return content
