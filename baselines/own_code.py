"""Policies from code of one's own: ``FILE.py:NAME`` and ``module:NAME``.

Only what a user names is executed here. Results store the code as text with its digest, and reading
results never comes here unless the user has named that digest.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from coopbench_envs.errors import broken_code
from coopbench_envs.own_files import executed
from coopbench_envs.parameters import unknown

__all__ = ["LARGEST_SOURCE", "CodePolicy", "identity_of", "is_code", "load_code", "stored_code"]

LARGEST_SOURCE = 1 << 20  # bytes of a source file, which every cell of the results stores


class CodePolicy:
    """A policy that a file or a module defines, with the source that it was made from.

    It plays like ``policy``, the object behind its name. Its ``name`` in results is
    ``FILE.py:NAME`` without the folder of the file, or ``module:NAME``, unless the caller sets
    another one. Copies in other processes are made from the same source.
    """

    def __init__(
        self, place: str, attribute: str, source: bytes, folder: str = "", imported: bool = False
    ) -> None:
        self.place, self.attribute, self.source = place, attribute, source
        self._folder = folder  # of the file, whose modules it imports before others
        self._imported = imported  # a module of this machine, which is imported by its name
        self.digest = hashlib.sha256(source).hexdigest()
        self.name = f"{place}:{attribute}"
        module = _imported(place) if imported else _executed(place, source, folder)
        self.policy = _object(module, attribute, self.name)

    @property
    def hyperparameters(self) -> Any:
        """What the policy says that it was made with; None if it says nothing."""
        return getattr(self.policy, "hyperparameters", None)

    @property
    def code(self) -> dict[str, str]:
        """Where the policy comes from: place, attribute and the SHA-256 digest of the source."""
        return {"place": self.place, "attribute": self.attribute, "sha256": self.digest}

    def act(self, observations: Any, *others: Any) -> Any:
        """Return the actions of the policy."""
        return getattr(self.policy, "act", self.policy)(observations, *others)

    def __reduce__(self) -> tuple[Any, ...]:
        place = self.place, self.attribute, self.source, self._folder
        return CodePolicy, (*place, self._imported), {"name": self.name}


def identity_of(code: Mapping[str, str]) -> str:
    """Return which policy a ``code`` means: the digest of a source and the name in it."""
    return f"{code['sha256']}:{code['attribute']}"


def is_code(text: str) -> bool:
    """Whether a text has the form ``FILE.py:NAME`` or ``module:NAME``."""
    place, colon, attribute = text.rpartition(":")
    if not colon or not _is_dotted(attribute):
        return False
    return place.endswith(".py") or _is_dotted(place)


def load_code(text: str) -> CodePolicy:
    """Execute the code that ``FILE.py:NAME`` or ``module:NAME`` names and return its policy.

    ``NAME`` is a function of observations, an object with ``act`` or ``predict``, or a class that
    is made without arguments. Raises ``ValueError`` if there is no such file, module or name, or if
    the code fails.
    """
    place, _, attribute = text.rpartition(":")
    if not place.endswith(".py"):
        return CodePolicy(place, attribute, _module_source(place), imported=True)
    file = Path(place)
    if not file.is_file():
        raise ValueError(f"Policy {text!r}: there is no file {place}. Allowed: FILE.py:NAME.")
    return CodePolicy(file.name, attribute, _bounded(file), str(file.resolve().parent))


def stored_code(place: str, attribute: str, source: bytes) -> CodePolicy:
    """Execute source that results have stored, which the user has named by its digest.

    It is executed as it is stored, also where it was a module: ``place`` is a stranger's word, and
    nothing is imported by it. Raises ``ValueError`` if the code fails, as a module does that
    imports its own package.
    """
    return CodePolicy(place, attribute, source)


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _bounded(file: Path) -> bytes:
    """Return the content of a source file; ``ValueError`` if it is too large."""
    with file.open("rb") as opened:
        content = opened.read(LARGEST_SOURCE + 1)
    if len(content) > LARGEST_SOURCE:
        raise ValueError(f"{file} has more than {LARGEST_SOURCE:,} bytes; allowed: up to that.")
    return content


def _module_source(name: str) -> bytes:
    """Return the source file of a module that can be imported."""
    try:
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        module_spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise ValueError(f"Module {name!r} cannot be imported: {error}.") from None
    origin = None if module_spec is None else module_spec.origin
    if origin is None or not origin.endswith(".py"):
        raise ValueError(
            f"There is no module {name!r} with a source file. Allowed: FILE.py:NAME, or "
            f"module:NAME of a module that can be imported."
        )
    return _bounded(Path(origin))


def _imported(name: str) -> ModuleType:
    """Return a module that can be imported."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise broken_code(name, error) from error


def _executed(place: str, source: bytes, folder: str) -> ModuleType:
    """Return a module that is made from source alone."""
    try:
        return executed(source, place, folder)
    except Exception as error:
        raise broken_code(place, error) from error


def _object(module: ModuleType, attribute: str, name: str) -> Any:
    """Return what a module calls ``attribute``; a class is made without arguments."""
    policy: Any = module
    for part in attribute.split("."):
        if not hasattr(policy, part):
            public = [key for key in vars(policy) if not key.startswith("_")]
            raise ValueError(unknown("name", part, public, name.rpartition(":")[0]))
        policy = getattr(policy, part)
    if isinstance(policy, type):
        try:
            policy = policy()
        except TypeError as error:
            raise ValueError(
                f"Policy {name!r} is a class that cannot be made without arguments ({error}); name "
                f"an object of it."
            ) from None
    acts = getattr(policy, "act", getattr(policy, "predict", policy))
    if not callable(acts):
        raise ValueError(
            f"Policy {name!r} is of type {type(policy).__name__}; allowed: a function of "
            f"observations, an object with act or predict, or a class of such objects."
        )
    return policy
