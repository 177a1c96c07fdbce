"""A stand-in for a broker: answers /readyz, ends on SIGTERM. For tests of what starts and stops brokers.

Settings of its own: ``stub.exit=CODE`` ends it at once, ``stub.stubborn=true`` makes it ignore SIGTERM.
"""

import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> int:
    lines = Path(sys.argv[-1]).read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if "stub.exit" in properties:
        print("the stub was told to end")
        return int(properties["stub.exit"])
    stubborn = properties.get("stub.stubborn") == "true"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: sys.exit(0))
    HTTPServer(("127.0.0.1", int(properties["minikafka.metrics.port"])), Ready).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
