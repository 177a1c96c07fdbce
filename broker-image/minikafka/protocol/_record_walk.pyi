"""The compiled forms of `record_walk.walk_records_in_python` and `find_record_in_python`."""

def walk_records(
    body: bytes | bytearray | memoryview, position: int, count: int, base_timestamp: int, /
) -> tuple[int, int, int, int, int]: ...
def find_record(
    body: bytes | bytearray | memoryview,
    position: int,
    count: int,
    base_timestamp: int,
    timestamp: int,
    first_delta: int,
    /,
) -> tuple[int, int, int]: ...
