"""Manifest: the digest chain of a results folder; its last link stands for all results.

``manifest.json`` lists every cell in the order of their folders' names, with the SHA-256 of its
``meta.json``, which holds those of its other files; ``shipped.json``, if there is one, is listed
like a cell, with its own SHA-256. Link 0 is the digest of the protocol, and link
k the SHA-256 of the lines: link k - 1, folder, sum. The last link is the digest of the results: it
changes if anything in the folder does.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from coopbench.errors import DamagedResultError
from coopbench.files import digest_of, parsed, read_bounded, write_text
from coopbench.protocol.schema import Protocol

NAME = "manifest.json"
SHIPPED = "shipped.json"  # which shipped scores belong to a folder; see ``packed_scores``
SCHEMA = 1


class Manifest(NamedTuple):
    """What a manifest states."""

    cells: dict[str, str]  # entry, such as the folder of a cell -> its SHA-256
    results: str  # digest of the results


def write_manifest(root: Path, protocol: Protocol) -> str:
    """Write the manifest of all cells below ``root``; return the digest of the results.

    Folders whose ``meta.json`` cannot be read are left out; ``unreadable`` names them.
    """
    sums = _sums(root)
    chain = links(protocol.digest, sums)
    content = {
        "schema": SCHEMA,
        "protocol": protocol.digest,
        "cells": [
            {"cell": folder, "sha256": sums[folder], "link": link}
            for folder, link in zip(sums, chain[1:], strict=True)
        ],
        "results": chain[-1],
    }
    write_text(root / NAME, json.dumps(content, indent=1) + "\n")
    return chain[-1]


def read_manifest(root: Path, digest: str) -> Manifest:
    """Return what the manifest of a folder lists; ``digest`` is that of the protocol.

    Raises ``DamagedResultError`` if there is none, or if it is not what ``write_manifest`` would
    have written for these cells and sums.
    """
    file = root / NAME
    content = read_bounded(file)
    try:
        stored = parsed(content)
        sums = {entry["cell"]: entry["sha256"] for entry in stored["cells"]}
        expected = links(digest, sums)
    except ValueError as error:
        raise DamagedResultError(f"{file} cannot be read ({error}).") from None
    except (LookupError, TypeError, AttributeError):
        raise DamagedResultError(f"{file} is not a manifest: its cells are not listed.") from None
    ends = stored.get("schema"), stored.get("protocol"), stored.get("results")
    chain = [entry.get("link") for entry in stored["cells"]]
    if (
        ends != (SCHEMA, digest, expected[-1])
        or chain != expected[1:]
        or list(sums) != sorted(sums)
    ):
        raise DamagedResultError(
            f"{file} was changed after it was written: its chain of digests does not hold."
        )
    return Manifest(sums, expected[-1])


def results_digest(root: Path, protocol: Protocol) -> str:
    """Return the digest that the manifest of a folder would state now; see ``write_manifest``."""
    return links(protocol.digest, _sums(root))[-1]


def _sums(root: Path) -> dict[str, str]:
    """Return the SHA-256 of all entries of a manifest that can be read."""
    sums = {}
    for entry in entries(root):
        with suppress(DamagedResultError):
            sums[entry] = entry_sum(root, entry)
    return sums


def entries(root: Path) -> list[str]:
    """Return what the manifest of a folder lists: its cells, and the file of shipped scores."""
    shipped = [SHIPPED] if (root / SHIPPED).exists() else []
    return sorted((*cell_folders(root), *shipped))


def cell_folders(root: Path) -> list[str]:
    """Return the folders of the cells below ``root``, by name; see ``folders_with``."""
    return folders_with("meta.json", root)


def folders_with(name: str, root: Path) -> list[str]:
    """Return the folders below ``root`` with a file of this name, sorted; see ``_below``."""
    holders = (Path(entry.path).parent for entry in _below(root) if entry.name == name)
    return sorted(folder.relative_to(root).as_posix() for folder in holders if folder != root)


def linked_folders(root: Path) -> list[str]:
    """Return the folders below ``root`` that are links, sorted; nothing is read through them."""
    links = list[str]()
    for entry in _below(root):
        with suppress(OSError):  # a link to itself
            if entry.is_symlink() and entry.is_dir():
                links.append(Path(entry.path).relative_to(root).as_posix())
    return sorted(links)


def link_on_the_way(root: Path, place: str) -> str:
    """Say that a folder ``place`` below ``root``, or one above it, is a link; empty if none is."""
    for part in (Path(place), *Path(place).parents[:-1]):
        if os.path.islink(root / part):  # which takes names that are too long
            return (
                f"{root / part} is a link, through which nothing is read. Put a copy in its "
                f"place: cp -rL copies a folder with what its links name."
            )
    return ""


def _below(root: Path) -> Iterator[os.DirEntry[str]]:
    """Yield what is below ``root`` but folders; links to folders are not followed.

    Folders that cannot be listed hold nothing.
    """
    folders = [root]
    while folders:  # ``os.walk`` calls itself for each level, and a stranger's may have thousands
        folder = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(folder / entry.name)
                else:
                    yield entry


def unreadable(root: Path) -> dict[str, str]:
    """Return {folder: reason} for the cells below ``root`` whose metadata cannot be read."""
    reasons = {}
    for folder in cell_folders(root):
        try:
            entry_sum(root, folder)
        except DamagedResultError as error:
            reasons[folder] = str(error)
    return reasons


def entry_sum(root: Path, entry: str) -> str:
    """Return the SHA-256 of the metadata of a cell, or of the file of shipped scores."""
    file = root / entry
    return digest_of(read_bounded(file if entry == SHIPPED else file / "meta.json"))


def links(digest: str, sums: Mapping[str, str]) -> list[str]:
    """Return the chain of entries with their sums, from the digest of a protocol on."""
    links = [digest]
    for folder, checksum in sums.items():
        link = f"{links[-1]}\n{folder}\n{checksum}\n"  # a folder may have any bytes as its name
        links.append(digest_of(link.encode(errors="surrogateescape")))
    return links
