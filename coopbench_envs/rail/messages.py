"""MessagePack: environments that early releases of flatland-rl saved, as plain values.

Every value takes at least a byte of the content, so a short file cannot make a large one. Types
that flatland-rl does not write, extensions among them, end the reading.
"""

import struct
from typing import Any

__all__ = ["read"]

_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(zip((0xCA, 0xCB, *range(0xCC, 0xD4)), "fdBHIQbhiq", strict=True))


def read(content: bytes) -> Any:
    """Return the value in a content: numbers, texts, bytes, tuples and dictionaries.

    Keys are texts, bytes or whole numbers. Raises ``ValueError`` for a type that is not allowed,
    and for a damaged content.
    """
    reader = _Reader(content)
    try:
        value = reader.value()
    except (EOFError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from None
    if reader.place != len(content):
        raise ValueError("it is damaged: something follows its end.")
    return value


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self.place = 0

    def value(self) -> Any:
        """Read the next value."""
        code = self._bytes(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            layout = f">{_NUMBERS[code]}"
            return struct.unpack(layout, self._bytes(struct.calcsize(layout)))[0]
        return self._collection(code)

    def _collection(self, code: int) -> Any:
        """Read a dictionary, a tuple, a text or bytes."""
        if code < 0x90:
            return self._dictionary(code - 0x80)
        if code < 0xA0:
            return self._tuple(code - 0x90)
        if code < 0xC0:
            return self._text(code - 0xA0)
        if code not in _SIZES:
            raise ValueError(f"it has a value of the type 0x{code:x}, which is not allowed.")
        size = int.from_bytes(self._bytes(_SIZES[code]), "big")
        if code < 0xD9:
            return self._bytes(size)
        if code < 0xDC:
            return self._text(size)
        return self._tuple(size) if code < 0xDE else self._dictionary(size)

    def _bytes(self, size: int) -> bytes:
        end = self.place + size
        if end > len(self._content):
            raise EOFError("its end is missing.")
        part = self._content[self.place : end]
        self.place = end
        return part

    def _text(self, size: int) -> str:
        return self._bytes(size).decode("utf-8")

    def _tuple(self, size: int) -> tuple[Any, ...]:
        values = []
        for _ in range(size):  # an end that is missing stops it, whatever the size says
            values.append(self.value())
        return tuple(values)

    def _dictionary(self, size: int) -> dict[Any, Any]:
        values = {}
        for _ in range(size):
            key = self.value()
            if type(key) not in (str, bytes, int):
                raise ValueError(f"it has a key of the type {type(key).__name__}.")
            values[key] = self.value()
        return values
