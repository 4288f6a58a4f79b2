"""Pages of protocols, made at every build: facts, seeds, baselines and tasks of each."""

from functools import partial

from coopbench import catalogue
from coopbench.describe import describe_protocol
from coopbench.protocol.loading import load_protocol


def page(name: str) -> str:
    """Return the page of a protocol: what ``coopbench show NAME`` prints."""
    return (
        f"# {name}\n\nThe protocol with its seeds, baselines and tasks, as `coopbench show {name}` "
        f"prints it. [Protocols](../protocols.md) explains the entries.\n\n"
        f"{describe_protocol(load_protocol(name))}\n"
    )


MADE = {f"protocols/{name}.md": partial(page, name) for name in catalogue.protocol_names()}
