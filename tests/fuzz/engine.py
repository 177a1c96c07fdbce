"""Runs one target under atheris (libFuzzer) until its time is over or it has a finding; `tests.fuzz` starts it.

`python -m tests.fuzz.engine NAME FOLDER SECONDS [LIBFUZZER OPTION ...]`; the seconds are of processor time.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

PACKAGES = ["minikafka", "minikafka_kube", "minikafka_operator", "minikafka_chaos"]
"""Whose branches guide the search; atheris looks at the first part of a module's name only."""
ADDRESS_SPACE_MORE = 2 << 30
"""What the process may still map once all is loaded: a length that is believed ends in a MemoryError, not with the machine."""
HANG_SECONDS = 20
"""By a clock that runs while others have the processor; what is slow in processor time a target finds itself."""


def main() -> None:
    """Give the target to libFuzzer, which ends the process: 0 when nothing was found."""
    name, folder, seconds, *options = sys.argv[1:]
    with atheris.instrument_imports(include=PACKAGES):
        from tests.fuzz.target import ODD_WORDS
        from tests.fuzz.targets import TARGETS
    target, corpus = TARGETS[name], Path(folder) / "corpus"
    for number, seed in enumerate([*target.seeds(), *(path.read_bytes() for path in target.found())]):
        (corpus / f"seed-{number}").write_bytes(seed)
    limits = [f"-timeout={HANG_SECONDS}", f"-report_slow_units={HANG_SECONDS}"]
    limits += [f"-max_len={target.bytes_max}", "-rss_limit_mb=0"]
    if words := [f'"{_escaped(word)}"\n' for word in (*ODD_WORDS, *target.words())]:
        (Path(folder) / "words").write_text("".join(words))
        limits.append(f"-dict={folder}/words")
    atheris.Setup(
        ["fuzz", *limits, "-print_final_stats=1", *options, str(corpus)],
        _until(float(seconds), target.check, Path(folder) / "found/raised"),
    )
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESS_SPACE_MORE,) * 2)
    atheris.Fuzz()


def _until(seconds: float, check: Callable[[bytes], None], raised: Path) -> Callable[[bytes], None]:
    """Ask libFuzzer to end once the processor time is used up: its own limit is of a clock that runs while others have the
    processor. An input that raises is written to a file at once, whatever becomes of the process afterwards.
    """
    until = time.process_time() + seconds

    def checked(data: bytes) -> None:
        try:
            check(data)
        except BaseException:
            raised.write_bytes(data)
            raise
        if time.process_time() > until:
            os.kill(os.getpid(), signal.SIGUSR1)

    return checked


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" if byte in b'"\\' or not 32 <= byte < 127 else chr(byte) for byte in word.encode())


if __name__ == "__main__":
    main()
