"""Lets the modules of this folder import ``studies``, which no installation holds."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
