"""Give stored results the digest that covers what is trained and played, and nothing else.

    python tools/convert_digests.py benchmarks/results/runs/skirmish-small --protocol skirmish-small

The digest of a protocol was once that of everything in it, bounds and descriptions included.
Results that were stored then carry it in the metadata of every cell, in the manifest and in the
report. Here they get the digest of today. Episodes, policies and checksums of files are not
touched; the checksums of metadata and the chain of the manifest follow from the new text.

A folder is converted only if its manifest holds under the old digest, and if the protocol that it
is given (its own, unless one is named) trains and plays exactly what the old one did. A protocol
that names a preset must name the hyperparameters that its training runs have. The state of
training runs that are not finished is not converted.
"""

import argparse
import gzip
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from coopbench.baselines.registry import learners, parse_name, preset
from coopbench.files import write_bytes, write_text
from coopbench.protocol.differences import differing_played
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.results.folder import protocol_of
from coopbench.results.manifest import cell_folders, read_manifest, write_manifest

__all__ = ["convert", "former_digest"]

_ADDED = ["training.preset"]  # keys of what is trained that had no place in a protocol before


def former_digest(protocol: Protocol) -> str:
    """Return the digest that a protocol had: that of all of its content."""
    content = protocol.model_dump(mode="json")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def convert(folder: Path, protocol: Protocol | None = None) -> str:
    """Convert the results in a folder; return what was done, in words.

    ``protocol`` takes the place of the folder's own, if it trains and plays the same.

    Raises ``ValueError`` if the folder holds something else, and changes nothing then.
    """
    stored = protocol_of(folder)
    new, old = protocol or stored, former_digest(stored)
    if json.loads((folder / "manifest.json").read_bytes())["protocol"] == new.digest:
        read_manifest(folder, new.digest)
        return f"{folder} has been converted"
    read_manifest(folder, old)
    differing = [key for key in differing_played(stored, new) if key not in _ADDED]
    if differing:
        raise ValueError(f"{folder} was trained and played otherwise: {', '.join(differing)}")
    texts: dict[Path, str] = {}
    for place in cell_folders(folder):
        file = folder / place / "meta.json"
        texts[file] = file.read_text(encoding="utf-8")
        _check_cell(file, json.loads(texts[file]), old, new)
    for file in (
        file for name in ("report.json", "report.json.gz") if (file := folder / name).is_file()
    ):
        content = file.read_bytes()
        texts[file] = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    for file, text in texts.items():
        replaced = text.replace(f'"{old}"', f'"{new.digest}"')
        packed = gzip.compress(replaced.encode(), mtime=0) if file.suffix == ".gz" else None
        write_bytes(file, replaced.encode() if packed is None else packed)
    if protocol is not None:
        write_text(folder / "protocol.json", new.model_dump_json(indent=2) + "\n")
    write_manifest(folder, new)
    return f"{folder}: {len(texts)} files, from {old[:12]} to {new.digest[:12]}"


def _check_cell(file: Path, meta: dict[str, Any], old: str, protocol: Protocol) -> None:
    """Raise ``ValueError`` unless a cell has the old digest, and the settings of the preset."""
    if meta["digest"] != old:
        raise ValueError(f"{file} has the digest {meta['digest'][:12]}, not {old[:12]}")
    kind = parse_name(meta["policy"]).kind
    if meta.get("training") is None or kind not in learners():
        return
    defaults, settings = learners()[kind].params._field_defaults, meta["hyperparameters"]
    for name, value in preset(protocol.preset, kind).items():
        if settings.get(name, defaults[name]) != value:
            raise ValueError(
                f"{file} was trained with {name} = {settings.get(name)!r}; the preset "
                f"{protocol.preset!r} has {value!r}"
            )


def main() -> None:
    """Convert the folders of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, help="results folders")
    parser.add_argument("--protocol", help="name or file; default: that of each folder")
    options = parser.parse_args()
    protocol = None if options.protocol is None else load_protocol(options.protocol)
    for folder in options.folders:
        try:
            print(convert(folder, protocol))
        except ValueError as error:
            sys.exit(f"not converted: {error}")


if __name__ == "__main__":
    main()
