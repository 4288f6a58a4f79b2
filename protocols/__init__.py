"""Protocols as data: one TOML file each, never edited after release; instances beside them.

The package can be called: ``coopbench.protocols()`` returns the names of its protocols. It is both
this package and that function, because importing a subpackage puts it in the place of its name.
"""

import sys
from types import ModuleType


class _Protocols(ModuleType):
    def __call__(self) -> tuple[str, ...]:
        """Return the names of the protocols that come with this package."""
        from coopbench.catalogue import protocols

        return protocols()


sys.modules[__name__].__class__ = _Protocols
