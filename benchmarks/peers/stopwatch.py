"""The measuring part of a probe, from the standard library alone: it runs in every interpreter."""

import json
import time
from importlib.metadata import PackageNotFoundError, version


class Stopwatch:
    """Adds up the processor time of what runs in ``with`` blocks, and the steps done there."""

    def __init__(self, seconds: float = 0.5) -> None:
        """Make a stopwatch that has enough after so many seconds of processor time."""
        self.enough, self.seconds, self.steps = seconds, 0.0, 0
        self._began = 0.0

    def __enter__(self) -> "Stopwatch":
        """Start the clock of all threads of this process."""
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the clock."""
        self.seconds += time.process_time() - self._began

    @property
    def running(self) -> bool:
        """Whether more has to be measured."""
        return self.seconds < self.enough

    def report(self, *packages: str) -> None:
        """Print the line of a probe: steps, seconds, and the versions of these packages."""
        versions = {name: _version(name) for name in packages}
        line = {"steps": self.steps, "seconds": self.seconds, "versions": versions}
        print(json.dumps(line), flush=True)


def _version(name: str) -> str:
    """Return the version of an installed package; a checkout has none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "of a checkout"
