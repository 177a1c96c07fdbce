"""The compiled form of `record_walk.walk_records_in_python`."""

def walk_records(
    body: bytes | bytearray | memoryview, position: int, count: int, base_timestamp: int, /
) -> tuple[int, int, int, int, int]: ...
