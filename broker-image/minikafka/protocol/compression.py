"""The codecs of record batches: none, gzip, snappy, lz4, zstd.

Only cold paths look inside a batch, so the packages are imported on first use. gzip comes with Python, the others with
`cramjam`; where that is missing they raise `UnsupportedCompression`, which says how to get it.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Any

XERIAL_MAGIC = b"\x82SNAPPY\0"
"""Kafka's Java clients frame snappy in blocks of snappy-java; librdkafka sends one raw block. Both are read."""
XERIAL_HEADER_BYTES = 16
XERIAL_BLOCK_BYTES = 32 * 1024
LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
"""Magic, independent blocks of at most 64 KiB, no checksums, and the header's own check byte: the frame that Kafka's
Java client writes. Its reader refuses dependent blocks, the default of other LZ4 libraries."""
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED_FLAG = 0x80000000
GZIP_WINDOW = 31
"""zlib's window bits for the gzip container."""


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnsupportedCompression(ValueError):
    """No such codec, or its package is not installed."""


class CorruptCompression(ValueError):
    """The compressed bytes do not decompress."""


def _cramjam(codec: int) -> Any:
    try:
        import cramjam
    except ImportError:
        raise UnsupportedCompression(f"{Codec(codec).name.lower()} needs cramjam: pip install cramjam") from None
    return cramjam


def decompress(codec: int, data: bytes) -> bytes:
    """The plain bytes. Raises UnsupportedCompression, CorruptCompression."""
    if codec == Codec.NONE:
        return data
    if codec > Codec.ZSTD:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    try:
        if codec == Codec.GZIP:
            return zlib.decompress(data, GZIP_WINDOW)
        cramjam = _cramjam(codec)
        if codec == Codec.SNAPPY:
            return _decompress_snappy(cramjam, data)
        return bytes(cramjam.lz4.decompress(data) if codec == Codec.LZ4 else cramjam.zstd.decompress(data))
    except UnsupportedCompression:
        raise
    except Exception as error:  # zlib.error, and cramjam's own exception class, which is no ValueError
        raise CorruptCompression(f"{Codec(codec).name.lower()}: {error}") from error


def compress(codec: int, data: bytes) -> bytes:
    """The compressed bytes as Kafka's Java client frames them. Raises UnsupportedCompression."""
    if codec == Codec.NONE:
        return data
    if codec > Codec.ZSTD:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    if codec == Codec.GZIP:
        packer = zlib.compressobj(wbits=GZIP_WINDOW)
        return packer.compress(data) + packer.flush()
    cramjam = _cramjam(codec)
    if codec == Codec.SNAPPY:
        return _compress_snappy(cramjam, data)
    if codec == Codec.LZ4:
        return _compress_lz4(cramjam, data)
    return bytes(cramjam.zstd.compress(data))


def _decompress_snappy(cramjam: Any, data: bytes) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = bytearray()
    position = XERIAL_HEADER_BYTES
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + size > len(data):
            raise CorruptCompression("snappy: a block is longer than the batch")
        out += cramjam.snappy.decompress_raw(data[position : position + size])
        position += size
    return bytes(out)


def _compress_snappy(cramjam: Any, data: bytes) -> bytes:
    out = bytearray(XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big"))
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)


def _compress_lz4(cramjam: Any, data: bytes) -> bytes:
    out = bytearray(LZ4_FRAME_HEADER)
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        plain = data[start : start + LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += len(block).to_bytes(4, "little") + block
        else:
            out += (len(plain) | LZ4_STORED_FLAG).to_bytes(4, "little") + plain
    out += bytes(4)
    return bytes(out)
