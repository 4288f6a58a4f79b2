"""Keepers: where a training run stores its state between the intervals of its training.

A run knows nothing of files: whoever makes it chooses its keeper. A folder is the only one shipped.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from coopbench.files import make_below, make_folder, write_file, write_text
from coopbench_envs import arrays

__all__ = ["FolderKeeper", "Keeper", "Scalars"]


class Scalars(Protocol):
    """Takes numbers to be plotted over training steps, as TensorBoard's ``SummaryWriter`` does."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Add the value of a named number at a step."""

    def close(self) -> None:
        """Write what has not been written yet."""


class Keeper(Protocol):
    """Stores the state of one training run; it can be pickled, since a run may move elsewhere."""

    @property
    def place(self) -> str:
        """Name what a user removes to train the run from its beginning."""

    @property
    def state(self) -> str:
        """Name the state in errors."""

    def alone(self) -> AbstractContextManager[None]:
        """Exclude other processes while the run is trained; ``ValueError`` if one trains it."""

    def read(self) -> dict[str, np.ndarray] | None:
        """Return the latest state, or None before the first; ``ValueError`` if it is damaged."""

    def write(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the state in one atomic step; ``ValueError`` if it is too large to be read."""

    def note(self, text: str) -> None:
        """Replace the summary of the run for people."""

    def scalars(self, step: int) -> Scalars:
        """Return a new writer of scalars; those that were written for later steps are dropped."""


@dataclass(frozen=True)
class FolderKeeper:
    """Keeps a run in a folder.

    state.npz   everything that the run needs to continue, and its best policy so far
    run.json    the summary
    events.*    scalars for TensorBoard
    lock        empty; locked by the process that trains
    """

    root: Path
    name: str = "."  # of the folder below ``root``, on the way to which no link is followed

    @property
    def folder(self) -> Path:
        """Return where the run is kept."""
        return self.root / self.name

    @property
    def place(self) -> str:
        """Return the folder."""
        return str(self.folder)

    @property
    def state(self) -> str:
        """Return the file of the state."""
        return str(self._file)

    @property
    def _file(self) -> Path:
        return self.folder / "state.npz"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder's lock; it is released when the process ends, however it does.

        On systems and disks without locks nothing is excluded.
        """
        make_folder(self.root)
        lock = make_below(self.root, self.name) / "lock"
        if lock.is_symlink():
            raise ValueError(f"{lock} is a link, through which nothing is written; remove it.")
        with lock.open("ab") as file:
            if find_spec("fcntl") is not None:  # not on every system
                from fcntl import LOCK_EX, LOCK_NB, flock

                try:
                    flock(file, LOCK_EX | LOCK_NB)
                except OSError as error:  # any other: this disk has no locks
                    if error.errno in (errno.EAGAIN, errno.EACCES):
                        raise ValueError(
                            f"Another process trains the run in {self.folder}. Wait for it to "
                            f"end, or choose another folder, other tasks or other seeds."
                        ) from None
            for leftover in self.folder.glob(".*.tmp"):  # of a process killed while it wrote
                leftover.unlink(missing_ok=True)
            yield

    def read(self) -> dict[str, np.ndarray] | None:
        """Return what ``state.npz`` holds, if there is one."""
        return arrays.unpack(self._file) if self._file.is_file() else None

    def write(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace ``state.npz``."""

        def fill(file: BinaryIO) -> None:
            arrays.write(file, state, compressed=False)
            if file.tell() > arrays.LIMIT:
                raise ValueError(
                    f"it takes up {file.tell():,} bytes; allowed: {arrays.LIMIT:,}, so that it can "
                    f"be read again"
                )

        write_file(self._file, fill)

    def note(self, text: str) -> None:
        """Replace ``run.json``."""
        write_text(self.folder / "run.json", text)

    def scalars(self, step: int) -> Scalars:
        """Return a writer for TensorBoard."""
        from torch.utils.tensorboard import SummaryWriter

        writer: Scalars = SummaryWriter(str(self.folder), purge_step=step + 1)
        return writer
