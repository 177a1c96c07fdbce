"""A stand-in for a broker: answers /readyz, ends on SIGTERM. For tests of what starts and stops brokers.

Settings of its own: ``stub.exit=CODE`` ends it at once, ``stub.stubborn=true`` makes it ignore SIGTERM.
"""

import signal
import socket
import sys


def main() -> int:
    with open(sys.argv[-1]) as file:
        properties = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line and not line.startswith("#"))
    if "stub.exit" in properties:
        print("the stub was told to end")
        return int(properties["stub.exit"])
    stubborn = properties.get("stub.stubborn") == "true"
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else lambda *_: sys.exit(0))
    with socket.create_server(("127.0.0.1", int(properties["minikafka.metrics.port"]))) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")


if __name__ == "__main__":
    sys.exit(main())
