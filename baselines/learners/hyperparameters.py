"""Hyperparameters that several learners have; steps are those of the environment, of all lanes."""

from typing import Annotated

from coopbench.baselines.learner import LATER
from coopbench.baselines.networks.network import ACTIVATIONS
from coopbench_envs.parameters import Allowed, between, one_of

MANY = 10**9
TERMINAL = "terminal"  # an end by time alone is one of the game
STORED = ("float32", "float16")  # how observations may be stored
ADAM, RMSPROP = OPTIMIZERS = "adam", "rmsprop"

# Of all learners.
LearningRate = Annotated[float, between(0, 1, "step size of the optimizer", above=True)]
Lanes = Annotated[int, between(1, 4096, "games played at once")]
Gamma = Annotated[float, between(0, 1, "discount factor")]
ScaleObservations = Annotated[bool, Allowed("scale bounded features to [-1, 1]")]
TimeLimit = Annotated[
    str, one_of(("bootstrap", TERMINAL), "values after an end by time alone: bootstrapped, or 0")
]
SeatNumber = Annotated[bool, Allowed("tell a shared model which seat it acts for"), LATER]
# Whose reward is learned from; a protocol can fix it for all learners ([training] reward).
Reward = Annotated[
    str,
    one_of(("own", "team"), "what agents maximize: own rewards, or the mean of all agents'"),
    LATER,
]
# Beside whom is learned; the tasks of a protocol fix it for all learners.
Partners = Annotated[
    tuple[str, ...], Allowed("partners in all seats but one, which the learner has in turn"), LATER
]

# Of learners whose networks have layers of chosen widths.
Layers = Annotated[str, Allowed("widths of the hidden layers")]
Activation = Annotated[str, one_of(ACTIVATIONS, "activation of hidden layers without memory")]
History = Annotated[int, between(1, 64, "latest observations that a network gets")]
Anneal = Annotated[int, between(0, 10**12, "steps to learning rate 0; 0: constant")]
NormOfEach = Annotated[float, between(0, 1e9, "largest norm of each gradient", above=True)]

# Of learners from rollouts.
Rollout = Annotated[int, between(2, 1_000_000, "environment steps between updates")]
Epochs = Annotated[int, between(1, 100, "passes over the rows of a rollout")]
GaeLambda = Annotated[float, between(0, 1, "lambda of the advantage estimates")]
Clip = Annotated[float, between(0, 1, "clipping range of probability ratios", above=True)]
EntropyBonus = Annotated[float, between(0, 10, "weight of the entropy bonus")]
ValueWeight = Annotated[float, between(0, 10, "weight of the value loss")]
LogStd = Annotated[float, between(-5, 2, "initial log standard deviation")]
Squash = Annotated[bool, Allowed("apply tanh to the mean actions")]
ScaleReturns = Annotated[bool, Allowed("divide rewards by the deviation of their discounted sums")]
TargetKl = Annotated[float, between(0, 10, "KL divergence that ends an update, 0: none")]
Memory = Annotated[bool, Allowed("networks with memory: linear, GRU, linear"), LATER]

# Of learners from a replay of steps.
Warmup = Annotated[int, between(0, MANY, "initial random steps without updates")]
TrainEvery = Annotated[int, between(1, MANY, "steps between updates")]
Updates = Annotated[int, between(1, 10_000, "gradient steps per update of a model")]
Tau = Annotated[float, between(0, 1, "update rate of target networks", above=True)]
ScaleRewards = Annotated[bool, Allowed("divide rewards by their standard deviation")]

# Of learners from whole episodes.
Optimizer = Annotated[
    str, one_of(OPTIMIZERS, "Adam, or RMSprop with PyMARL's alpha of 0.99 and eps of 1e-5"), LATER
]
Replay = Annotated[int, between(1, 1_000_000, "episodes in the replay buffer")]
Episodes = Annotated[int, between(1, 4096, "episodes of an update")]
UpdatesPerEpisode = Annotated[float, between(0, 100, "gradient steps for each episode", above=True)]
Trace = Annotated[float, between(0, 1, "lambda of the targets; 0: one-step targets")]
TargetEvery = Annotated[int, between(1, MANY, "gradient steps between new targets")]
Epsilon = Annotated[float, between(0, 1, "final share of random choices")]
EpsilonSteps = Annotated[int, between(1, 10**12, "steps until the final share of random choices")]
MaxGradNorm = Annotated[float, between(0, 1e9, "largest norm of a gradient", above=True)]
Remembers = Annotated[bool, Allowed("networks with memory: a GRU in the middle"), LATER]
Hidden = Annotated[int, between(1, 1024, "width of the layers and of the memory")]
FitReplay = Annotated[bool, Allowed("store fewer episodes if all would take too much memory")]
Stored = Annotated[str, one_of(STORED, "type of stored observations")]
Blind = Annotated[bool, Allowed("observe only own number, last action and legal choices")]
