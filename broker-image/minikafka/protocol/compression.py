"""The codecs of record batches: none, gzip, snappy, lz4, zstd.

gzip comes with Python, the others with `cramjam`, imported on first use; where that is missing they raise
`UnsupportedCompression`, which says how to get it. What is decompressed is bounded: a kilobyte may hold a gigabyte of zeros.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

XERIAL_MAGIC = b"\x82SNAPPY\0"
"""Kafka's Java clients frame snappy in blocks of snappy-java; librdkafka sends one raw block. Both are read."""
XERIAL_HEADER_BYTES = 16
XERIAL_BLOCK_BYTES = 32 * 1024
BLOCK_COST_BYTES = 4 * 1024
"""What the smallest block of snappy-java or LZ4 counts as: a batch of tiny ones, each a step in Python, would take more time
than a large batch. The first of an LZ4 frame counts for nothing."""
LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
"""Magic, independent blocks of at most 64 KiB, no checksums, and the header's own check byte: the frame that Kafka's
Java client writes. Its reader refuses dependent blocks, the default of other LZ4 libraries."""
LZ4_FRAME_MAGIC = LZ4_FRAME_HEADER[:4]
LZ4_FLAGS_MASK, LZ4_FLAGS = 0b11100011, 0b01100000
"""Of the byte after the magic: version 1, independent blocks, no dictionary, nothing reserved."""
LZ4_CONTENT_SIZE_FLAG, LZ4_BLOCK_CHECKSUM_FLAG, LZ4_CONTENT_CHECKSUM_FLAG = 0b1000, 0b10000, 0b100
LZ4_BLOCK_BYTES = 64 * 1024
LZ4_STORED_FLAG = 0x80000000
GZIP_WINDOW = 31
"""zlib's window bits for the gzip container."""
GZIP_MEMBERS_MAX = 100
"""Producers write one; a batch of empty ones, each a step in Python, would take more time than a large batch."""
GZIP_FED_BYTES = 1 << 16
"""What zlib gets at once: it copies what it leaves of that, ..."""
PIECE_BYTES = 1 << 20
"""... and what it gives. What is larger is no bytearray, which is filled with zeros first: no other thread runs meanwhile, so
every client of a broker would wait while one's batch is decompressed in a thread of its own."""
DECOMPRESSED_BYTES_MAX = 1 << 26
"""How much a batch may hold where nothing else is said: twice what a Java producer buffers by default for all its batches."""
FIRST_BUFFER_BYTES = 1 << 16
"""Neither lz4's nor zstd's frames say how much they hold: a first buffer that mostly suffices, ..."""
FIRST_BUFFER_RATIO = 4
BUFFER_GROWTH = 8
"""... and by how much the next one is larger."""
BUFFER_TOO_SMALL = "failed to write whole buffer"
"""What cramjam says then (the words of Rust's standard library)."""


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


class DecompressedTooLarge(CorruptCompression):
    """There is more in the compressed bytes than is allowed."""

    def __init__(self, codec: int, bytes_max: int) -> None:
        super().__init__(f"{Codec(codec).name.lower()}: more than {bytes_max} bytes when decompressed")


def _cramjam(codec: int) -> Any:
    try:
        import cramjam
    except ImportError:
        raise UnsupportedCompression(f"{Codec(codec).name.lower()} needs cramjam: pip install cramjam") from None
    return cramjam


def decompress(
    codec: int, data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes | bytearray | memoryview:
    """The plain bytes, at most `bytes_max` of them.

    Raises UnsupportedCompression, CorruptCompression, DecompressedTooLarge; no more than `bytes_max` bytes are made before it.
    """
    if codec == Codec.NONE:
        return data
    if codec > Codec.ZSTD:
        raise UnsupportedCompression(f"compression codec {codec} is unknown")
    try:
        if codec == Codec.GZIP:
            return _decompress_gzip(data, bytes_max)
        cramjam = _cramjam(codec)
        if codec == Codec.SNAPPY:
            return _decompress_snappy(cramjam, data, bytes_max)
        return _decompress_frame(cramjam.lz4 if codec == Codec.LZ4 else cramjam.zstd, codec, data, bytes_max)
    except (UnsupportedCompression, DecompressedTooLarge):
        raise
    except Exception as error:  # zlib.error, and cramjam's own exception class, which is no ValueError
        raise CorruptCompression(f"{Codec(codec).name.lower()}: {error}") from error


def _buffer(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size <= PIECE_BYTES else mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _decompress_gzip(data: bytes | bytearray | memoryview, bytes_max: int) -> memoryview:
    """Several members may follow each other, as for Java's `GZIPInputStream`."""
    data = memoryview(data)
    pieces: list[bytes] = []
    size = position = 0
    for _ in range(GZIP_MEMBERS_MAX):
        stream = zlib.decompressobj(GZIP_WINDOW)
        while not stream.eof:
            fed = data[position : position + GZIP_FED_BYTES]
            piece = stream.decompress(fed, min(PIECE_BYTES, bytes_max - size + 1))
            if not piece and not fed and not stream.eof:
                raise CorruptCompression("it ends early")
            position += len(fed) - len(stream.unused_data if stream.eof else stream.unconsumed_tail)
            size += len(piece)
            if size > bytes_max:
                raise DecompressedTooLarge(Codec.GZIP, bytes_max)
            pieces.append(piece)
        if position == len(data):
            return _joined(pieces, size)
    raise CorruptCompression(f"more than {GZIP_MEMBERS_MAX} members")


def _joined(pieces: list[bytes], size: int) -> memoryview:
    if len(pieces) == 1:
        return memoryview(pieces[0])
    buffer = memoryview(_buffer(size))
    end = 0
    for piece in pieces:
        buffer[end : (end := end + len(piece))] = piece
    return buffer


def _decompress_frame(algorithm: Any, codec: int, data: bytes | bytearray | memoryview, bytes_max: int) -> memoryview:
    """lz4 and zstd, into a buffer that grows."""
    size = min(bytes_max, max(FIRST_BUFFER_BYTES, len(data) * FIRST_BUFFER_RATIO))
    while True:
        buffer = memoryview(_buffer(size))
        try:
            return buffer[: algorithm.decompress_into(data, buffer)]
        except Exception as error:
            if BUFFER_TOO_SMALL not in str(error):
                raise
        if size == bytes_max:
            raise DecompressedTooLarge(codec, bytes_max)
        size = min(bytes_max, size * BUFFER_GROWTH)


def check_lz4_for_java(data: bytes | bytearray | memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> None:
    """Refuse what LZ4's own reader takes, and Kafka's Java one (`Lz4BlockInputStream`) does not.

    That is anything but one frame of independent blocks: no Java consumer would get past it. Raises CorruptCompression, and
    DecompressedTooLarge for more blocks than a batch of `bytes_max` bytes may have.
    """
    if len(data) < len(LZ4_FRAME_HEADER) or data[: len(LZ4_FRAME_MAGIC)] != LZ4_FRAME_MAGIC:
        raise CorruptCompression("lz4: it does not begin with a frame")
    flags = data[len(LZ4_FRAME_MAGIC)]
    if flags & LZ4_FLAGS_MASK != LZ4_FLAGS:
        raise CorruptCompression("lz4: the blocks of the frame are not independent, or it is of no known form")
    position = len(LZ4_FRAME_HEADER) + (8 if flags & LZ4_CONTENT_SIZE_FLAG else 0)
    checksum = 4 if flags & LZ4_BLOCK_CHECKSUM_FLAG else 0
    cost = 0
    while size := int.from_bytes(data[position : position + 4], "little") & ~LZ4_STORED_FLAG:
        position += 4 + size + checksum
        if cost > bytes_max:
            raise DecompressedTooLarge(Codec.LZ4, bytes_max)
        cost += BLOCK_COST_BYTES
    position += 4 + (4 if flags & LZ4_CONTENT_CHECKSUM_FLAG else 0)
    if position < len(data):
        raise CorruptCompression("lz4: something follows the frame")


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


def _decompress_snappy(cramjam: Any, data: bytes | bytearray | memoryview, bytes_max: int) -> memoryview:
    data = memoryview(data)
    length = cramjam.snappy.decompress_raw_len
    blocks: list[tuple[memoryview, int]] = []
    cost = 0
    for block in _xerial_blocks(data) if data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC else (data,):
        blocks.append((block, length(block)))
        cost += max(blocks[-1][1], BLOCK_COST_BYTES if block is not data else 0)
        if cost > bytes_max:
            raise DecompressedTooLarge(Codec.SNAPPY, bytes_max)
    buffer = memoryview(_buffer(sum(size for _, size in blocks)))
    end = 0
    for block, size in blocks:
        cramjam.snappy.decompress_raw_into(block, buffer[end : (end := end + size)])
    return buffer


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    position = XERIAL_HEADER_BYTES
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + size > len(data):
            raise CorruptCompression("a block is longer than the batch")
        yield data[position : position + size]
        position += size


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
