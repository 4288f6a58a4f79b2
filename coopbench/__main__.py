"""``python -m coopbench``."""

from coopbench.cli.commands import main

main()
