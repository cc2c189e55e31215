"""A log in the one form that `ringfence log verify` accepts.

Zips can be written in many ways, and some of them show different readers different logs; therefore the one who checks
accepts one way only. Contents are copied as they are packed; only what stands around them is written anew.
"""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

_VERSION, _UTF8, _DATE = 63, 0x0800, 0x0021
_LARGEST = (1 << 32) - 1
_CHUNK = 1 << 20


def repack(log: Path) -> None:
    """Writes a log anew, whole or not at all."""
    hidden = log.with_name(f".{log.name}.partial")
    try:
        with zipfile.ZipFile(log) as packed, log.open("rb") as source, hidden.open("xb") as target:
            _write(packed.infolist(), source, target)
            target.flush()
            os.fsync(target.fileno())
        hidden.replace(log)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{log.name} is not a log that can be signed: {error}") from error
    finally:
        hidden.unlink(missing_ok=True)


def _write(entries: list[zipfile.ZipInfo], source: BinaryIO, target: BinaryIO) -> None:
    if len({entry.filename for entry in entries}) < len(entries) or len(entries) >= 0xFFFF:
        raise ValueError("the log has an entry twice, or too many")
    directory = b""
    for entry in entries:
        offset = target.tell()
        if max(entry.file_size, entry.compress_size, offset) >= _LARGEST:
            raise ValueError("the log is too large to be signed")
        name = entry.filename.encode("utf-8")
        sizes = struct.pack("<III", entry.CRC, entry.compress_size, entry.file_size)
        common = struct.pack("<HHHHH", _VERSION, _UTF8, entry.compress_type, 0, _DATE) + sizes
        target.write(b"PK\x03\x04" + common + struct.pack("<HH", len(name), 0) + name)
        _copy(entry, source, target)
        directory += b"PK\x01\x02" + struct.pack("<H", 0x0300 | _VERSION) + common
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0o100644 << 16, offset) + name
    start = target.tell()
    target.write(directory)
    count = len(entries)
    target.write(b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), start, 0))


def _copy(entry: zipfile.ZipInfo, source: BinaryIO, target: BinaryIO) -> None:
    source.seek(entry.header_offset)
    head = source.read(30)
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        raise ValueError("an entry of the log is not where its directory says")
    name, extra = struct.unpack("<HH", head[26:30])
    source.seek(name + extra, os.SEEK_CUR)
    left = entry.compress_size
    while left > 0:
        part = source.read(min(left, _CHUNK))
        if not part:
            raise ValueError("an entry of the log is cut off")
        target.write(part)
        left -= len(part)
