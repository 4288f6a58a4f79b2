"""Probe: training with BenchMARL's QMIX: ``python train_benchmarl.py MAP recurrent|memoryless``.

Eight updates of 32 sequences after every 1000 steps. A step is one of the game.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from benchmarl_qmix import make_experiment
from stopwatch import Stopwatch

STEPS = 5000
with tempfile.TemporaryDirectory() as folder:  # BenchMARL writes files
    recurrent = sys.argv[2] == "recurrent"
    experiment = make_experiment(sys.argv[1], "qmix", STEPS, 0, folder, recurrent)
    watch = Stopwatch()
    with watch:
        experiment.run()
    watch.steps = STEPS
    watch.report("benchmarl", "torchrl", "torch")
