"""``python -m coopbench``."""

from coopbench.cli.main import main

main()
