"""The archive of frozen instances that comes with the package: a file for every task."""

import zipfile

from coopbench.protocol.task import INSTANCES


def stored() -> dict[str, bytes]:
    """Return all files of the archive by name."""
    with zipfile.ZipFile(INSTANCES) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put(name: str, content: bytes) -> None:
    """Write a file into the archive, in place of the one of this name.

    Files are in the order of their names, without dates, so the archive depends on them alone.
    """
    files = {**stored(), name: content}
    with zipfile.ZipFile(INSTANCES, "w") as archive:
        for each in sorted(files):
            entry = zipfile.ZipInfo(each)
            archive.writestr(entry, files[each], zipfile.ZIP_DEFLATED, compresslevel=9)
