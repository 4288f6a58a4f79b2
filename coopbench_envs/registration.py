"""Registration: finds every environment of the families and tells Gymnasium and PettingZoo its id.

Nothing is listed by hand. The ids are read from the sources with one expression, so that importing
the package costs neither numba nor a kernel; a test holds them against the imported SPECs. Other
packages name theirs in the entry-point group ``coopbench.environments``: ``id = "module:SPEC"``.
"""

import importlib
import importlib.util
import re
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import gymnasium
import pettingzoo

from coopbench_envs.errors import KernelError, broken_code
from coopbench_envs.foreign_names import is_foreign, permit, permitted
from coopbench_envs.own_files import digests_of, modules_beside
from coopbench_envs.parameters import unknown

if TYPE_CHECKING:
    from coopbench_envs.core import EnvSpec

__all__ = [
    "ByName",
    "added",
    "ids",
    "register",
    "register_all",
    "register_file",
    "restore",
    "source_digests",
    "spec",
]

_ROOT = Path(__file__).parent
_ID = re.compile(r'^\s+id="([\w-]+/[\w.-]+-v\d+)"', re.MULTILINE)
_NAME = re.compile(r"[\w-]+/[\w.-]+-v\d+")  # of an environment of another package
_OURS = "coopbench"  # the namespace of this package
_SHELLS = "coopbench_envs.shells"
_CORE = "coopbench_envs.core"  # imports numba
_FOREIGN = "coopbench_envs.foreign.environment"  # imports numba
_GROUP = "coopbench.environments"  # of entry points
_modules: dict[str, str] = {}  # id -> module that defines it
_specs: dict[str, "EnvSpec"] = {}  # id -> its SPEC, once needed
_digests: WeakKeyDictionary[ModuleType, dict[str, str]] = WeakKeyDictionary()  # SHA-256


def ids() -> tuple[str, ...]:
    """Return the ids of all registered environments, sorted."""
    return tuple(sorted(_modules))


def spec(env_id: str) -> "EnvSpec":
    """Return the SPEC of ``env_id``; the namespace ``coopbench/`` may be left out.

    ``module:id`` imports ``module`` first, as ``gymnasium.make`` does, and ``FILE.py:SPEC`` is
    ``register_file``. An environment of another package (see ``foreign_names``) is made when its
    constants are needed.

    Raises ``ValueError`` with the nearest id if there is none of that name, and for a module that
    cannot be imported.
    """
    if is_foreign(env_id):
        described: EnvSpec = _imported(_FOREIGN).foreign_spec(env_id)
        return described
    if ":" in env_id:
        module, env_id = env_id.rsplit(":", 1)
        if module.endswith(".py"):
            return register_file(module, env_id)
        _imported(module)
    name = env_id if "/" in env_id else f"coopbench/{env_id}"
    if name not in _modules:
        raise ValueError(_unregistered(name))
    if name not in _specs:
        for env_spec in specs_of(_imported(_modules[name])):
            if _modules.get(env_spec.id) == _modules[name]:
                _specs.setdefault(env_spec.id, env_spec)
        source_digests(_modules[name])
        if name not in _specs:
            raise ValueError(
                f"The module {_modules[name]} defines no SPEC with the id {name!r}, under which "
                f"its package registers it; it defines "
                f"{', '.join(s.id for s in specs_of(_imported(_modules[name]))) or 'none'}."
            )
    return _specs[name]


def _unregistered(name: str) -> str:
    """Say what to do about an id that is not registered."""
    namespaces = sorted({env_id.partition("/")[0] for env_id in _modules})
    if name.partition("/")[0] in namespaces:
        return unknown("environment", name, _modules, listing="coopbench list")
    return (
        f"The environment {name[:100]!r} is not registered here. Name the file that defines it: "
        f"--register FILE.py:SPEC (with verify --execute FILE.py:SPEC), 'env' in a protocol file, "
        f"coopbench_envs.register_file in Python; or install the package that registers it. Known "
        f"namespaces: {', '.join(namespaces)}."
    )


def specs_of(module: object) -> "list[EnvSpec]":
    """Return the SPECs that ``module`` defines: the values of its names that begin with SPEC."""
    return [value for key, value in vars(module).items() if key.startswith("SPEC")]


def register(env_spec: "EnvSpec") -> None:
    """Register your own environment under its id, on all interfaces.

    Call it at the top level of the module that defines ``env_spec``, so that every process that
    imports the module has it. A second call replaces the environment of that id, in worker
    processes, too. What was made before it goes on with the old one, as do its copies, and can no
    longer be pickled.

    Raises ``ValueError`` for an id without a namespace and a version, and for one in the namespace
    of this package.
    """
    _check_id(env_spec.id)
    _register(env_spec.id, env_spec.module)
    _specs[env_spec.id] = env_spec
    source_digests(env_spec.module)


def register_file(file: str | Path, name: str) -> "EnvSpec":
    """Import a file, register the environment that it calls ``name``, and return its SPEC.

    ``name`` is that of a variable, or the id of an environment that the file registers itself. The
    file is imported as a module named like it, and may import modules of its folder. Raises
    ``ValueError`` if there is no such file or name, if its code fails (with the line), if other
    modules have the names of these, and if this process has imported any of them with another
    content.
    """
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"There is no file {file} with an environment.")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    _check_beside(path)
    try:
        module = importlib.import_module(path.stem)
    except KernelError:  # which names its place itself
        raise
    except Exception as error:
        raise broken_code(str(file), error) from error
    if Path(str(getattr(module, "__file__", ""))).resolve() != path:
        raise ValueError(
            f"{file} cannot be imported: its name is that of another module, "
            f"{getattr(module, '__file__', path.stem)}. Rename the file."
        )
    imported, now = source_digests(module.__name__), digests_of(path)
    if imported != now:
        changed = [name for name in {**imported, **now} if imported.get(name) != now.get(name)]
        raise ValueError(
            f"{file} has changed since this process has imported it: {', '.join(changed)}. Start "
            f"Python again."
        )
    by_name: dict[str, EnvSpec] = {
        key: s for key, s in vars(module).items() if key.startswith("SPEC")
    }
    by_name |= {str(getattr(s, "id", key)): s for key, s in by_name.items()}
    if name not in by_name:
        raise ValueError(
            f"{unknown('environment', name, by_name, str(file))} A function or class that makes an "
            f"environment of Gymnasium or PettingZoo is named gymnasium:FILE.py:NAME or "
            f"pettingzoo:FILE.py:NAME."
        )
    if not isinstance(by_name[name], _imported(_CORE).EnvSpec):
        raise ValueError(f"{name} in {file} was {by_name[name]!r}; allowed: an EnvSpec.")
    register(by_name[name])
    return by_name[name]


class ByName:
    """A registered environment in what is copied or pickled: copies share it, pickles name it.

    A pickle raises ``ValueError``, when it is made and when it is loaded, if another environment
    has been registered under the id.
    """

    def __init__(self, env_spec: "EnvSpec") -> None:
        self.env_spec = env_spec

    def __deepcopy__(self, memo: dict[int, Any]) -> "ByName":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        env_id, module = self.env_spec.id, self.env_spec.module
        if spec(env_id) is not self.env_spec:
            raise ValueError(_replaced(env_id))
        return _named, (env_id, module, source_digests(module))


def _named(env_id: str, module: str, digests: dict[str, str]) -> ByName:
    env_spec = spec(env_id)
    # A script that is imported elsewhere has another name there, and the same content.
    if env_spec.module != module and source_digests(env_spec.module) != digests:
        raise ValueError(_replaced(env_id))
    return ByName(env_spec)


def _replaced(env_id: str) -> str:
    return (
        f"Another environment has been registered as {env_id} since this one was made. A pickle "
        f"names its environment, and would go on with the other one: make this one anew."
    )


def _check_beside(file: Path) -> None:
    """Raise ``ValueError`` if what a file imports from its folder is another module here.

    The name of a module of an environment is part of its compiled code, and has to be the same in
    all processes; so the modules beside it cannot have names of their own, as in ``own_files``.
    """
    for name, place in modules_beside(file).items():
        if "." in name and name not in sys.modules:
            continue
        found = importlib.util.find_spec(name)
        origin = None if found is None else found.origin
        if origin is None or Path(origin).resolve() != place.resolve():
            raise ValueError(
                f"{file} imports {name!r} from its folder, {place}, but a module of this name is "
                f"there already: {origin}. Allowed: names that no other module has. Rename "
                f"{place.name}, or start Python again where another file has imported its own."
            )


def source_digests(module: str) -> dict[str, str]:
    """Return the SHA-256 digests that the file of a module had when it was first registered.

    With those of the modules that it imports from its folder, unless it is a module of a package,
    whose version tells them. An environment plays the code that was imported, whatever has become
    of the files since. Empty for a module that has no file, or that has not been imported.
    """
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if loaded is None or not file or not Path(file).is_file():
        return {}
    if loaded not in _digests:
        _digests[loaded] = digests_of(Path(file), alone="." in module)
    return _digests[loaded]


def _check_id(env_id: str) -> None:
    """Raise ``ValueError`` unless another package may register an environment under this id."""
    allowed = f"allowed: NAMESPACE/Name-v0 with a namespace other than {_OURS}"
    if _NAME.fullmatch(env_id) is None:
        raise ValueError(f"An environment cannot have the id {env_id!r}; {allowed}.")
    if env_id.startswith(f"{_OURS}/"):
        raise ValueError(
            f"The id {env_id!r} is in the namespace of this package, whose environments alone may "
            f"have it; {allowed}."
        )


def added() -> dict[str, str]:
    """Return the environments that are not of this package, {id: module}.

    Those of other packages that may be made have no module.
    """
    registered = {k: m for k, m in _modules.items() if not m.startswith("coopbench_envs.")}
    return registered | dict.fromkeys(permitted(), "")


def restore(modules: dict[str, str]) -> None:
    """Register what ``added`` has returned in another process; modules are imported when used."""
    for env_id, module in modules.items():
        if module:
            _register(env_id, module)
        else:
            permit(env_id)


def _imported(module: str) -> ModuleType:
    """Import the module of an environment; ``ValueError`` if there is none of that name."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"The module {module!r} of an environment cannot be imported: {error}. Allowed: a "
            f"module that can be imported from here, or FILE.py:SPEC."
        ) from None


def register_all() -> None:
    """Register every environment of the families of this package, and of other packages."""
    for file in sorted(_ROOT.glob("*/**/*.py")):
        for env_id in _ID.findall(file.read_text(encoding="utf-8")):
            module = ".".join(file.relative_to(_ROOT.parent).with_suffix("").parts)
            _register(env_id, module)
    for point in entry_points(group=_GROUP):
        try:
            _check_id(point.name)
        except ValueError as error:
            text = f"The environment {point.name!r} of {point.value!r} is not registered: {error}"
            warnings.warn(text, stacklevel=2)
        else:
            _register(point.name, point.module)


def _register(env_id: str, module: str) -> None:
    known = _modules.get(env_id)
    _modules[env_id] = module
    if known is not None:
        # A worker process has the script under two names.
        if sys.modules.get(known) is not sys.modules.get(module):
            _specs.pop(env_id, None)
        return
    kwargs = {"env_id": env_id}
    gymnasium.register(
        env_id,
        entry_point=f"{_SHELLS}.gymnasium_env:GymnasiumEnv",
        vector_entry_point=f"{_SHELLS}.vectors:vector_env",
        kwargs=dict(kwargs),
    )
    if env_id.startswith(f"{_OURS}/"):
        # Here -v1 is another game than -v0, which published protocols continue to play. Gymnasium
        # calls a version out of date if there is a higher one of the same name, so it gets the
        # whole id as the name of a game that has no versions.
        described = gymnasium.registry[env_id]
        described.name, described.version = env_id.removeprefix(f"{_OURS}/"), None
    pettingzoo.register(
        "parallel", env_id, f"{_SHELLS}.parallel_env:ParallelEnv", kwargs=dict(kwargs)
    )
    pettingzoo.register("aec", env_id, f"{_SHELLS}.aec_env:AECEnv", kwargs=dict(kwargs))
