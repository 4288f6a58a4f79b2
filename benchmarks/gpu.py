"""Speed of engines on a GPU: steps per second by lanes, layouts and registers, and of others.

    python benchmarks/gpu.py [--quick] [--only games,lanes,layouts,registers,graph,training,peers]

needs a GPU and the extra ``cuda``; a quarter of an hour of one H100 is enough for everything.
Prints Markdown with the versions, and the clocks before and after. A rate is the median of five
rounds; the first call, which compiles, stands apart. Actions are eight arrays of random ones, which
lie on the GPU.
"""

import argparse
import importlib.util
import statistics
import subprocess
import time
import traceback
from importlib import metadata

import numpy as np

from coopbench_envs import Engine
from coopbench_envs.cuda import engine
from coopbench_envs.cuda.assembling import assembler
from coopbench_envs.cuda.gpu import Gpu, open_gpu

ROUNDS, ARRAYS = 5, 8
PLACE = "cuda"  # of the network that is trained
OBSTACLES = {"map": "random_grid", "map_params": {"obstacle_density": 0.15}}
FREE = {"map": "random_grid", "map_params": {"obstacle_density": 0.0}}
# Name, environment, parameters, lanes.
WORK = (
    ("TrustDilemma-v1", "TrustDilemma-v1", {}, 65536),
    ("PlatformEcosystem-v1", "PlatformEcosystem-v1", {}, 65536),
    ("Routing-v1, 8 agents, free", "Routing-v1", {"num_agents": 8, **FREE}, 32768),
    ("Routing-v1, 32 agents, o60", "Routing-v1", {"num_agents": 32, **OBSTACLES}, 16384),
    ("Rail-v1", "Rail-v1", {}, 16384),
    ("Skirmish-v1", "Skirmish-v1", {}, 16384),
)
LANES = tuple(2**k for k in range(6, 19, 2))


class Tuned(Gpu):
    """A GPU that compiles drivers with other settings."""

    def __init__(self, gpu, **settings):
        super().__init__(gpu._driver, gpu.ordinal)
        self.settings = settings

    def load(self, program, **options):
        """Return a function; a driver's is compiled with the settings."""
        if program.template.__name__ == "play":
            options |= self.settings
        return super().load(program, **options)


def begun(env_id, lanes, parameters, *, gpu=None, **options):
    """Return an engine at the start of its episodes, and actions that lie beside it."""
    opened = engine.open_gpu
    if gpu is not None:
        engine.open_gpu = lambda ordinal: gpu
    try:
        game = engine.CudaEngine(env_id, lanes, **options, **parameters)
    finally:
        engine.open_gpu = opened
    game.reset(np.arange(lanes))
    rng, moves = np.random.default_rng(0), []
    for _ in range(ARRAYS):
        if game.discrete:
            values = rng.integers(0, max(s.n for s in game.action_spaces), game.actions.shape)
        else:
            values = rng.uniform(*game.action_bounds(), game.actions.shape)
        game._remote.take(values)
        moves.append(game.actions.copy())
    return game, moves


def rate(game, moves, *, seconds=0.5, step=None):
    """Return the median of the rounds' steps per second."""
    step = step or game.step
    for actions in moves:
        step(actions)
    game.check()
    rates, calls = [], ARRAYS
    while len(rates) < ROUNDS:
        start = time.perf_counter()
        for k in range(calls):
            step(moves[k % ARRAYS])
        game._remote.check()
        taken = time.perf_counter() - start
        if taken < seconds and not rates:
            calls *= 2
        else:
            rates.append(calls * game.lanes / taken)
    return statistics.median(rates)


def tried(env_id, lanes, parameters, **options):
    """Return steps per second, or why none were measured; and the seconds of the first call."""
    start = time.perf_counter()
    try:
        game, moves = begun(env_id, lanes, parameters, **options)
        first = time.perf_counter() - start
        return f"{rate(game, moves):,.0f}", f"{first:.1f} s"
    except (MemoryError, RuntimeError) as error:
        return " ".join(str(error).split())[-100:], ""


def head(title, *columns):
    """Begin a table; its rows are printed as soon as they are measured."""
    print(f"\n## {title}\n")
    row(*columns)
    print(f"|{'---|' * len(columns)}")


def row(*cells):
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def games(quick):
    columns = ("work", "lanes", "one core of the CPU", "GPU", "until the first step")
    head("Work: steps per second", *columns)
    for name, env_id, parameters, lanes in WORK[: 2 if quick else None]:
        cpu = Engine(env_id, 64, **parameters)
        cpu.reset(np.arange(64))
        moves = [np.zeros_like(cpu.actions)]
        cpu.step(moves[0])
        start, calls = time.process_time(), 0
        while time.process_time() - start < 1.0:
            cpu.step(moves[0])
            calls += 1
        core = 64 * calls / (time.process_time() - start)
        steps, first = tried(env_id, lanes, parameters)
        row(name, f"{lanes:,}", f"{core:,.0f}", steps, first)


def lanes(quick):
    chosen = WORK[:1] if quick else WORK[:4]
    head("Lanes: steps per second", "lanes", *(work[0] for work in chosen))
    for number in LANES:
        cells = [tried(work[1], number, work[2])[0] for work in chosen]
        row(f"{number:,}", *cells)
    game, moves = begun(WORK[0][1], 1, {})
    print(f"\nOne step of one lane: {1e6 / rate(game, moves):.1f} us, two launches.")


def layouts(quick):
    columns = ("lane innermost", "lane outermost")
    head("Layouts: steps per second", "work", *columns)
    for name, env_id, parameters, number in WORK[: 1 if quick else 4]:
        cells = [tried(env_id, number, parameters, order=order)[0] for order in ("F", "C")]
        row(name, *cells)


def registers(quick):
    numbers = (64, 128, 168, 255)
    head("Registers of a thread, at most: steps per second", "work", *numbers)
    if assembler() is None:
        print("\nptxas is not installed: the driver decides on registers.")
        return
    for name, env_id, parameters, number in WORK[: 1 if quick else 4]:
        cells = []
        for most in numbers:
            gpu = Tuned(open_gpu(0), registers=most)
            cells.append(tried(env_id, number, parameters, gpu=gpu)[0])
        row(name, *cells)


def graph(quick):
    """Eight steps as one graph of launches, against eight calls of ``step``."""
    head("Graphs: steps per second", f"lanes of {WORK[0][0]}", "calls", "graph")
    for number in (64, 4096, 65536):
        gpu = open_gpu(0)
        with gpu._current():
            stream = gpu._do("cuStreamCreate", 1)
        game, moves = begun(WORK[0][1], number, {}, stream=int(stream))
        plain = rate(game, moves)
        mode = gpu._driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        with gpu._current():
            gpu._do("cuStreamBeginCapture", stream, mode)
            for actions in moves:
                game.step(actions)
            captured = gpu._do("cuStreamEndCapture", stream)
            ready = gpu._do("cuGraphInstantiate", captured, 0)

        def replay(_, gpu=gpu, ready=ready, stream=stream):
            with gpu._current():
                gpu._do("cuGraphLaunch", ready, stream)

        row(f"{number:,}", f"{plain:,.0f}", f"{ARRAYS * rate(game, moves, step=replay):,.0f}")


def training(quick):
    """A loop of proximal policy optimisation, with its games on the GPU and on the CPU."""
    columns = ("lanes of TrustDilemma-v1", "games on the CPU", "games on the GPU")
    head("Training: agent-steps per second of the whole loop", *columns)
    if importlib.util.find_spec("torch") is None or not torch_sees_a_gpu():
        print("\ntorch is not installed, or built without CUDA.")
        return
    for number in (1024, 16384):
        cells = [f"{trained(device, number, 2 if quick else 5):,.0f}" for device in ("cpu", "cuda")]
        row(f"{number:,}", *cells)


def torch_sees_a_gpu():
    import torch

    return PLACE == "cpu" or torch.cuda.is_available()


def trained(device, number, updates, horizon=32, epochs=4, parts=8):
    """Return agent-steps per second; the network and its updates are on the GPU in both cases."""
    import torch
    from torch import nn

    kind = engine.CudaEngine if device == "cuda" else Engine
    game = kind("TrustDilemma-v1", number)
    game.reset(np.arange(number))
    features, actions = game.control.obs.shape[2], game.actions.shape[2]
    body = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    net = nn.ModuleList((body, nn.Linear(64, actions), nn.Linear(64, 1))).to(PLACE)
    spread = nn.Parameter(torch.zeros(actions, device=PLACE))
    optimiser = torch.optim.Adam([*net.parameters(), spread], 3e-4)

    def shared(array):
        return array.as_torch() if device == "cuda" else torch.as_tensor(array, device=PLACE)

    def judged(obs):
        hidden = net[0](obs)
        return torch.distributions.Normal(net[1](hidden), spread.exp()), net[2](hidden)[..., 0]

    def update():
        store = []
        for _ in range(horizon):
            obs = shared(game.control.obs).clone().float()
            with torch.no_grad():
                choice, value = judged(obs)
                action = choice.sample()
            game.step(action if device == "cuda" else action.cpu().numpy())
            reward = shared(game.control.rewards).clone().float()
            done = (shared(game.control.ended) | shared(game.control.truncated)).float()[:, None]
            store.append((obs, action, choice.log_prob(action).sum(-1), value, reward, done))
        obs, action, before, value, reward, done = (
            torch.stack(x) for x in zip(*store, strict=True)
        )
        advantage, last, following = torch.zeros_like(reward), 0.0, value[-1]
        for t in reversed(range(horizon)):
            delta = reward[t] + 0.99 * following * (1 - done[t]) - value[t]
            last = delta + 0.99 * 0.95 * (1 - done[t]) * last
            advantage[t], following = last, value[t]
        flat = [x.flatten(0, 2) for x in (obs, action, before, advantage, advantage + value)]
        for _ in range(epochs):
            for rows in torch.randperm(len(flat[0]), device=PLACE).chunk(parts):
                o, a, b, adv, target = (x[rows] for x in flat)
                choice, guess = judged(o)
                ratio = (choice.log_prob(a).sum(-1) - b).exp()
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                loss = policy + 0.5 * (guess - target).square().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    update()
    wait = torch.cuda.synchronize if PLACE == "cuda" else int
    wait()
    start = time.perf_counter()
    for _ in range(updates):
        update()
    wait()
    steps = updates * horizon * number * len(game.agents)
    return steps / (time.perf_counter() - start)


def peers(quick):
    """Environments of other packages on this GPU, random actions, where they are installed."""
    head("Other packages on this GPU, random actions", "package", "work", "steps per second")
    for name, measure in (("CAMAR", camar), ("JaxMARL", jaxmarl), ("VMAS", vmas)):
        if importlib.util.find_spec(name.lower()) is None:
            row(name, "", "not installed")
            continue
        for what, value in measure():
            row(f"{name} {metadata.version(name.lower())}", what, f"{value:,.0f}")


def rate_of_jax(env, lanes, steps=100):
    """Return steps per second of an environment with the interface of JaxMARL."""
    import jax

    keys = jax.random.split(jax.random.PRNGKey(0), lanes)
    _, state = jax.vmap(env.reset)(keys)

    def actions_of(key):
        if hasattr(env, "agents"):
            parts = jax.random.split(key, len(env.agents))
            pairs = zip(env.agents, parts, strict=True)
            return {agent: env.action_space(agent).sample(part) for agent, part in pairs}
        return env.action_spaces.sample(key)

    def one(carry, key):
        split = jax.random.split(key, lanes)
        moves = jax.vmap(actions_of)(split)
        out = jax.vmap(env.step)(split, carry, moves)
        return out[1], None

    run = jax.jit(lambda state, key: jax.lax.scan(one, state, jax.random.split(key, steps))[0])
    state = jax.block_until_ready(run(state, keys[0]))
    rates = []
    for k in range(ROUNDS):
        start = time.perf_counter()
        state = jax.block_until_ready(run(state, jax.random.PRNGKey(k)))
        rates.append(steps * lanes / (time.perf_counter() - start))
    return statistics.median(rates)


def camar():
    from camar import camar_v0

    for agents, density in ((8, 0.0), (32, 0.15)):
        options = {"num_agents": agents, "obstacle_density": density}
        for number in (1000, 10000):
            env = camar_v0("random_grid", map_kwargs=options)
            yield f"{agents} agents, {density}, {number:,} lanes", rate_of_jax(env, number)


def jaxmarl():
    import jaxmarl

    for name in ("MPE_simple_spread_v3", "HeuristicEnemySMAX"):
        yield f"{name}, 10,000 lanes", rate_of_jax(jaxmarl.make(name), 10000)


def vmas():
    import torch
    import vmas

    env = vmas.make_env("simple_spread", num_envs=30000, device="cuda", continuous_actions=True)
    env.reset()
    rates = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        for _ in range(20):
            env.step([env.get_random_action(agent) for agent in env.agents])
        torch.cuda.synchronize()
        rates.append(20 * 30000 / (time.perf_counter() - start))
    yield "simple_spread, 30,000 lanes", statistics.median(rates[1:])


def described():
    """Print the GPU, its clocks and the versions."""
    gpu = open_gpu(0)
    names = ("coopbench", "numba-cuda", "cuda-bindings", "numba", "torch", "jax")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    print(
        f"\n{gpu.name}, sm_{gpu.arch[0]}{gpu.arch[1]}, CUDA {gpu.version}; {', '.join(versions)}."
    )
    query = "driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        print(f"{query}: {shown.strip()}", flush=True)
    except FileNotFoundError:
        print("nvidia-smi is not installed.")


PARTS = (games, lanes, layouts, registers, graph, training, peers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one or two games of each table")
    parser.add_argument("--only", default=",".join(part.__name__ for part in PARTS))
    options = parser.parse_args()
    described()
    for part in PARTS:
        if part.__name__ in options.only.split(","):
            try:
                part(options.quick)
            except Exception:  # the other parts are measured all the same
                traceback.print_exc()
    described()


if __name__ == "__main__":
    main()
