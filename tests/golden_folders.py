"""Recorded reference values of a family: an archive in ``golden``, unpacked once per process."""

import atexit
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


@cache
def unpacked(name: str) -> Path:
    """Return a temporary folder with the files of ``golden/NAME.zip``."""
    folder = Path(tempfile.mkdtemp(prefix=f"coopbench-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as packed:
        packed.extractall(folder)
    return folder
