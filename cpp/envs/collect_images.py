"""Gymnasium's images for the pictures of its tasks, decoded when this is built.

A PNG becomes a file of its own: height and width, two bytes each, least first, then uint8 [height, width, 4].

Usage: collect_images.py OUTPUT FOLDER…; folders are those below gymnasium/envs, such as toy_text/img.
"""

import importlib.metadata
import importlib.util
import pathlib
import struct
import sys
import zlib


def decode(png: bytes) -> bytes:
    """An image with 8 bits for each of red, green, blue and alpha, not interlaced: what Gymnasium has."""
    position, compressed, header = 8, b"", b""
    while position < len(png):
        (length,) = struct.unpack_from(">I", png, position)
        kind, content = png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        header += content if kind == b"IHDR" else b""
        compressed += content if kind == b"IDAT" else b""
        position += 12 + length
    width, height, depth, colour_type, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if (depth, colour_type, interlaced) != (8, 6, 0):
        sys.exit(f"expected 8-bit RGBA without interlacing, got {(depth, colour_type, interlaced)}")
    return struct.pack("<HH", height, width) + unfilter(zlib.decompress(compressed), height, width * 4)


def unfilter(lines: bytes, height: int, row_bytes: int) -> bytes:
    """Undoes what makes a PNG's rows easier to compress."""
    out, above = bytearray(), bytearray(row_bytes)
    for y in range(height):
        start = y * (row_bytes + 1)
        kind, row = lines[start], bytearray(lines[start + 1 : start + 1 + row_bytes])
        for i in range(row_bytes):
            left, corner = (row[i - 4], above[i - 4]) if i >= 4 else (0, 0)
            guess = (0, left, above[i], (left + above[i]) // 2, paeth(left, above[i], corner))[kind]
            row[i] = (row[i] + guess) & 255
        out += row
        above = row
    return bytes(out)


def paeth(left: int, above: int, corner: int) -> int:
    """The one of the three that is nearest to left + above - corner."""
    target = left + above - corner
    return min((left, above, corner), key=lambda value: abs(target - value))


output = pathlib.Path(sys.argv[1])
spec = importlib.util.find_spec(
    "gymnasium"
)  # without importing it: that would start more than a build should
if spec is None or not spec.submodule_search_locations:
    sys.exit("the Python package 'gymnasium' is needed to build the pictures of its tasks")
envs = pathlib.Path(spec.submodule_search_locations[0]) / "envs"
for folder in sys.argv[2:]:
    for file in sorted((envs / folder).rglob("*.png")):
        target = output / file.relative_to(envs).with_suffix(".rgba")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_mtime < file.stat().st_mtime:
            target.write_bytes(decode(file.read_bytes()))
for file in importlib.metadata.files("gymnasium") or ():
    if file.name == "LICENSE":
        (output / "LICENSE.gymnasium").write_bytes(file.read_binary())
