"""Protocols as data: one TOML file each, never edited after release; instances beside them.

The package can be called: ``coopbench.protocols()`` returns the names of its protocols. It has to
be both, because importing a subpackage binds its name in the package above.
"""

import sys
from pathlib import Path
from types import ModuleType


class _Protocols(ModuleType):
    def __call__(self) -> tuple[str, ...]:
        """Return the names of the protocols that come with this package."""
        return tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.toml")))


sys.modules[__name__].__class__ = _Protocols
