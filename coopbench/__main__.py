"""``python -m coopbench``."""

from coopbench.cli import main

main()
