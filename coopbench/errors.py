"""Errors: every exception that coopbench defines, in one tree.

    CoopbenchError
    ├── ProtocolError        (ValueError)    a protocol cannot be used
    ├── UnregisteredError    (ProtocolError) an environment of a protocol is not registered
    ├── OtherProtocolError   (ValueError)    results belong to another protocol
    ├── DamagedResultError   (Exception)     a file of results cannot be used
    ├── ReplayError          (ValueError)    an episode cannot be shown again
    ├── KernelError          (TypeError)     a kernel cannot be compiled
    ├── WorkerError          (RuntimeError)  a worker process could not be started, or died
    └── Diverged             (RuntimeError)  training produced numbers that are not finite

The class in parentheses is a second base: a handler for it catches the error, too. Wrong arguments
of functions raise Python's own ``ValueError``, ``TypeError`` and ``FileNotFoundError``.
"""

from coopbench.baselines.errors import Diverged
from coopbench_envs.errors import CoopbenchError, KernelError

__all__ = [
    "CoopbenchError",
    "DamagedResultError",
    "Diverged",
    "KernelError",
    "OtherProtocolError",
    "ProtocolError",
    "ReplayError",
    "UnregisteredError",
    "WorkerError",
]


class ProtocolError(CoopbenchError, ValueError):
    """A protocol that cannot be used; the message names the file, the key and the remedy."""


class UnregisteredError(ProtocolError):
    """A protocol has an environment that is not registered here."""


class OtherProtocolError(CoopbenchError, ValueError):
    """Results that belong to another protocol than the one that is used."""


class DamagedResultError(CoopbenchError):
    """A file of results that cannot be used; the message names it and says what is wrong."""


class ReplayError(CoopbenchError, ValueError):
    """An episode that cannot be shown; the message says which, why, and what to do."""


class WorkerError(CoopbenchError, RuntimeError):
    """A worker process that could not be started, or died; the message names its job."""
