"""The registration of a study in its results folder."""

from datetime import UTC, datetime
from pathlib import Path

from coopbench.errors import DamagedResultError
from coopbench.files import make_folder, parsed, read_bounded, write_text
from coopbench.protocol.registration import FILE, Registration

__all__ = ["now", "read_registration", "write_registration"]


def now() -> str:
    """Return the time in UTC, as a registration has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_registration(root: Path) -> Registration | None:
    """Return the registration of a results folder; None if it has none.

    Raises ``DamagedResultError`` if it cannot be read.
    """
    file = root / FILE
    if not file.exists():
        return None
    content = read_bounded(file)
    try:
        return Registration.model_validate(parsed(content))
    except ValueError as error:
        raise DamagedResultError(f"{file} is not a registration: {error}") from None


def write_registration(root: Path, registration: Registration) -> Path:
    """Write a registration into a folder, which is made if needed; return the file.

    Raises:
        FileExistsError: there is one; a registration is never edited.
    """
    file = root / FILE
    if file.exists():
        raise FileExistsError(
            f"{file} exists, and a registration is not edited; choose another folder"
        )
    make_folder(root)
    write_text(file, registration.model_dump_json(indent=1, by_alias=True) + "\n")
    return file
