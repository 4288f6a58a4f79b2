"""The folder in which a training run stores its state between the intervals of its training."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from coopbench.files import make_below, make_folder, write_file, write_text
from coopbench_envs import arrays


class Scalars(Protocol):
    """Takes numbers to be plotted over training steps, as TensorBoard's ``SummaryWriter`` does."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Add the value of a named number at a step."""

    def close(self) -> None:
        """Write what has not been written yet."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one training run; it can be pickled, since a run may move elsewhere.

    state.npz   everything that the run needs to continue, and its best policy so far
    run.json    the summary
    events.*    scalars for TensorBoard
    lock        empty; locked by the process that trains
    """

    root: Path
    name: str = "."  # of the folder below ``root``, on the way to which no link is followed

    @property
    def path(self) -> Path:
        """Return the folder, which a user removes to train the run from its beginning."""
        return self.root / self.name

    @property
    def state(self) -> Path:
        """Return the file of the state."""
        return self.path / "state.npz"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other processes while the run is trained; ``ValueError`` if one trains it.

        The lock is released when the process ends, however it does. On systems and disks without
        locks nothing is excluded.
        """
        make_folder(self.root)
        place = make_below(self.root, self.name) / "lock"
        if place.is_symlink():
            raise ValueError(f"{place} is a link, through which nothing is written; remove it.")
        with place.open("ab") as file:
            if find_spec("fcntl") is not None:  # not on every system
                from fcntl import LOCK_EX, LOCK_NB, flock

                try:
                    flock(file, LOCK_EX | LOCK_NB)
                except OSError as error:  # any other: this disk has no locks
                    if error.errno in (errno.EAGAIN, errno.EACCES):
                        raise ValueError(
                            f"Another process trains the run in {self.path}. Wait for it to "
                            f"end, or choose another folder, other tasks or other seeds."
                        ) from None
            for leftover in self.path.glob(".*.tmp"):  # of a process killed while it wrote
                leftover.unlink(missing_ok=True)
            yield

    def read(self) -> dict[str, np.ndarray] | None:
        """Return the latest state, or None before the first; ``ValueError`` if it is damaged."""
        return arrays.unpack(self.state) if self.state.is_file() else None

    def write(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the state in one atomic step; ``ValueError`` if it is too large to be read."""

        def fill(file: BinaryIO) -> None:
            arrays.write(file, state, compressed=False)
            if file.tell() > arrays.LIMIT:
                raise ValueError(
                    f"it takes up {file.tell():,} bytes; allowed: {arrays.LIMIT:,}, so that it can "
                    f"be read again"
                )

        write_file(self.state, fill)

    def note(self, text: str) -> None:
        """Replace the summary of the run for people."""
        write_text(self.path / "run.json", text)

    def scalars(self, step: int) -> Scalars:
        """Return a writer for TensorBoard; what was written for later steps is dropped."""
        from torch.utils.tensorboard import SummaryWriter

        writer: Scalars = SummaryWriter(str(self.path), purge_step=step + 1)
        return writer
