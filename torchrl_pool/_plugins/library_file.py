"""The file of a shared library, looked at before the system maps it."""

from __future__ import annotations

import struct
from pathlib import Path


def check_is_whole(library: Path) -> None:
    """Raises ValueError: an ELF file ends before its segments do; the system would map it, and crash."""
    if not library.is_file():
        return
    with library.open("rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:  # of 64 bits, the low ones first
            return
        (first,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(first)
        table = file.read(size * count)
        ends = [sum(struct.unpack_from("<Q16xQ", table, i * size + 8)) for i in range(len(table) // size)]
    if len(table) < size * count or max(ends, default=0) > library.stat().st_size:
        raise ValueError(f"{library} is not a usable plugin: the file is cut off")
