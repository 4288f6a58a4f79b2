"""Drivers: the loop over lanes, written once, compiled once per environment.

A driver owns what means the same in every environment: time, truncation, automatic reset, the
random stream of each episode, returns, dead agents and illegal actions. The kernels own the
dynamics.
"""

import ast
import functools
import hashlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from coopbench_envs.core import Kernels, kernel, stream

__all__ = [
    "DISABLED",
    "NEXT_STEP",
    "RENEW",
    "RESET",
    "RESTORE",
    "Control",
    "compiled",
    "driver",
    "entry",
]

# What one call of a driver does. Step: a finished lane begins its next episode, or rests.
NEXT_STEP, DISABLED = 0, 1
# In the chosen lanes: begin the episode that is set; begin the next one but leave the outcome of
# the last step to be reported; look again at a state that was given.
RESET, RENEW, RESTORE = 2, 3, 4


class Control(NamedTuple):
    """What the driver keeps per lane; axis 0 is the lane, ``agents`` follows where it applies."""

    seed: np.ndarray  # (lanes,) uint64, of the lane's environment
    episode: np.ndarray  # (lanes,) int64, 0 for the first after a seeded reset
    rng: np.ndarray  # (lanes,) uint64, state of the episode's random stream
    done: np.ndarray  # (lanes,) bool, episode is over
    alive: np.ndarray  # (lanes, agents) bool
    returns: np.ndarray  # (lanes, agents) float64, sum of rewards so far
    invalid: np.ndarray  # (lanes, agents) int64, illegal actions so far
    chosen: np.ndarray  # (lanes,) bool, lanes that RESET, RENEW and RESTORE act on
    moved: np.ndarray  # (lanes,) bool, lanes that the present call has changed
    rewards: np.ndarray  # (lanes, agents) float64
    terminated: np.ndarray  # (lanes, agents) bool
    truncated: np.ndarray  # (lanes,) bool
    ended: np.ndarray  # (lanes,) bool, all agents are terminated
    team: np.ndarray  # (lanes,) float64, sum of the agents' rewards
    obs: np.ndarray  # (lanes, agents, features) float32
    measures: np.ndarray  # (lanes, metrics) float64
    masks: np.ndarray  # (lanes, agents, actions) int8, 1 = legal; last axis empty for Box


# What the templates below call, bound anew for every environment: its kernels, or these stand-ins.
reset: Any = None
step: Any = None
observe: Any = None
measure: Any = None
global_state: Any = None
prepare: Any = None
mask: Any = None
legalise: Any = None


def drive(p, s, c, actions, op, start, stop):
    """Do ``op`` in the lanes from ``start`` to ``stop``."""
    # Two loops, and every kernel in one place: as one loop it runs at half the speed, because the
    # compiler loses sight of so many arrays, and a kernel that stands twice is compiled twice.
    for i in range(start, stop):
        starting = c.chosen[i] if op >= RESET else c.done[i] and op == NEXT_STEP
        c.moved[i] = starting or (op < RESET and not c.done[i])
        if starting:
            if op != RESTORE:
                begin(c, i, op)
                s.time[i] = 0
                reset(p, s, i, c.rng)
            prepare(p, s, i)
        elif c.moved[i]:
            legalise(c, i, actions)
            step(p, s, i, c.rng, actions, c.rewards, c.terminated)
            s.time[i] += 1
            settle(c, i, s.time[i] >= p.horizon)
        elif op < RESET:
            wait(c, i)
    for i in range(start, stop):
        if c.moved[i]:
            mask(p, s, i, c.masks)
            observe(p, s, i, c.obs)
            measure(p, s, i, c.measures)


@kernel
def begin(c, i, op):
    """Start the next episode of lane ``i``, or for RESET the one that the engine has set."""
    if op != RESET:
        c.episode[i] += 1
    c.rng[i] = stream(c.seed[i], np.uint64(c.episode[i]))
    c.done[i] = False
    if op != RENEW:  # which still has to report the step that ended the last episode
        c.truncated[i] = False
        c.ended[i] = False
        c.team[i] = 0.0
    for a in range(c.alive.shape[1]):
        c.alive[i, a] = True
        c.returns[i, a] = 0.0
        c.invalid[i, a] = 0
        if op != RENEW:
            c.rewards[i, a] = 0.0
            c.terminated[i, a] = False


@kernel
def settle(c, i, late):
    """Book the step just played: dead agents stay dead, and the episode may be over."""
    over = True
    c.team[i] = 0.0
    for a in range(c.alive.shape[1]):
        if not c.alive[i, a]:
            c.rewards[i, a] = 0.0
            c.terminated[i, a] = True
        c.alive[i, a] = not c.terminated[i, a]
        c.returns[i, a] += c.rewards[i, a]
        c.team[i] += c.rewards[i, a]
        over = over and c.terminated[i, a]
    c.ended[i] = over
    c.truncated[i] = late
    c.done[i] = over or late


@kernel
def wait(c, i):
    """Let a finished lane rest: nothing more is earned."""
    c.team[i] = 0.0
    for a in range(c.rewards.shape[1]):
        c.rewards[i, a] = 0.0


@kernel
def _no_prepare(p, s, i):
    pass


@kernel
def _no_mask(p, s, i, masks):
    for a in range(masks.shape[1]):
        for k in range(masks.shape[2]):
            masks[i, a, k] = 1


@kernel
def _any_box(c, i, actions):
    pass


@kernel
def _legal_discrete(c, i, actions):
    """Replace what is illegal, or the action of a dead agent, by -1: do nothing."""
    for a in range(c.alive.shape[1]):
        k = actions[i, a]
        if not c.alive[i, a]:
            actions[i, a] = -1
        elif k < 0 or k >= c.masks.shape[2] or c.masks[i, a, k] == 0:
            c.invalid[i, a] += 1
            actions[i, a] = -1


def world(p, s, out):
    """Write the global state of every lane."""
    for i in range(out.shape[0]):
        global_state(p, s, i, out)


def driver(kernels: Kernels, name: str, discrete: bool) -> Any:
    """Return ``drive`` or ``world``, compiled with the ``kernels`` as its globals.

    Environments that have all their kernels in common share one driver.
    """
    needed = ("global_state",) if name == "world" else ("reset", "step", "observe", "measure")
    bound = {kernel_name: getattr(kernels, kernel_name) for kernel_name in needed}
    if name == "drive":
        bound["legalise"] = _legal_discrete if discrete else _any_box
        bound["prepare"] = kernels.prepare or _no_prepare
        bound["mask"] = kernels.mask or _no_mask
    return _compiled(name, tuple(bound.items()))


@functools.cache
def _compiled(name: str, bound: tuple[tuple[str, Any], ...]) -> Any:
    """Compile a template with the ``bound`` kernels."""
    plain = [getattr(kernel, "py_func", kernel) for _, kernel in bound]
    kernels = [f"{function.__module__}.{function.__qualname__}" for function in plain]
    home = dict(zip([key for key, _ in bound], plain, strict=True)).get("step", plain[0]).__module__
    digest = _source_hash({function.__module__ for function in plain}, kernels)
    template = {"drive": drive, "world": world}[name]
    unique = f"{name}_{home.replace('.', '_')}_{digest}"
    return _cached(template, globals() | dict(bound), unique)


def compiled(function: Callable[..., None]) -> Any:
    """Compile a function of a module, for instance a planner's loop over lanes.

    Like a kernel it fills the arrays that it is given and allocates nothing; it may call kernels
    and routines. An edit of its module or of what that imports from our packages recompiles it.
    """
    digest = _source_hash({function.__module__}, [f"{function.__module__}.{function.__qualname__}"])
    return _cached(function, function.__globals__, f"{function.__name__}_{digest}")


def _cached(template: Any, names: dict[str, Any], unique: str) -> Any:
    """Compile ``template`` with ``names`` as its globals, cached on disk under a ``unique`` name.

    The name has to carry a hash of every source file that the code inlines: numba alone looks at
    the outermost function's file and would return stale machine code after an edit of a kernel. The
    result releases the interpreter lock, so that threads can share the lanes.
    """
    function = types.FunctionType(template.__code__, names, unique, template.__defaults__)
    function.__qualname__, function.__module__ = unique, template.__module__
    flags = {"error_model": "numpy", "nogil": True, "_nrt": False}
    try:
        return numba.njit(cache=True, **flags)(function)
    except RuntimeError as error:  # numba found no folder that it may write to
        if "locator" not in str(error):
            raise
        return numba.njit(**flags)(function)


def entry(dispatcher: Any, *arguments: Any) -> Any:
    """Return the machine code for arguments of these very types, as a callable without type checks.

    Looking up the types of some fifty arrays costs 10 us a call, ten times the call itself. The
    caller promises to pass arguments of the same types, dimensions and memory layout.
    """
    if numba.config.DISABLE_JIT:  # the kernels as plain Python, for debugging and for a test
        return dispatcher
    signature = tuple(numba.typeof(argument) for argument in arguments)
    dispatcher.compile(signature)
    return dispatcher.overloads[signature].entry_point


def _source_hash(modules: set[str], kernels: list[str]) -> str:
    digest = hashlib.sha256(" ".join(kernels).encode())
    files = set().union(*(_sources(module) for module in {*modules, __name__}))
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _sources(module: str) -> set[Path]:
    """Files of ``module`` and of everything that it imports from its own package and from ours.

    Looks at files alone: importing a module to find its source would load what it imports.
    """
    packages = {module.partition(".")[0], __name__.partition(".")[0]}
    found: set[Path] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        file = _file(name) if name.partition(".")[0] in packages else None
        if file is not None and file not in found:
            found.add(file)
            for node in ast.walk(ast.parse(file.read_bytes())):
                queue += _imported(node)
    return found


def _file(module: str) -> Path | None:
    """Source of a module in a package that is loaded, or None if it has none."""
    known, rest = module, ""
    while known and known not in sys.modules:  # a package within a package can lie elsewhere
        known, _, last = known.rpartition(".")
        rest = f"{last}/{rest}" if rest else last
    loaded = sys.modules.get(known)
    file = getattr(loaded, "__file__", None)
    if file is None or not rest:
        return None if file is None else Path(file)
    if not hasattr(loaded, "__path__"):
        return None
    stem = Path(file).parent / rest
    return next((f for f in (stem.with_suffix(".py"), stem / "__init__.py") if f.is_file()), None)


def _imported(node: ast.AST) -> list[str]:
    """Modules that an import statement may take functions or numbers from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return []
    parts = [f"{node.module}.{alias.name}" for alias in node.names]
    modules = [part for part in parts if _file(part) is not None]
    # "from package import module" does not read the package's own names.
    return modules if len(modules) == len(parts) else [node.module, *modules]
