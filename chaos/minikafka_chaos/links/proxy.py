"""The process between the brokers: `python -m minikafka_chaos.links.proxy FOLDER`, told by its standard input what to do.

Each broker advertises a port of this process instead of its own. Who connects is known by the client id of its first request
(`broker-N-...`), as it stands in every Kafka request header; on the clients' ports everybody is a client. What passes is
held, delayed or let through by the rule of its way, in the order in which it came, as TCP would show it: a cut loses nothing
for good, what was under way arrives when it is over, unless a side has hung up meanwhile, which the other learns then. While
nobody listens behind a port it is closed, so that a dead broker refuses connections here as well; the first one after its death
is taken and closed. The one difference to a network: a connection can be opened over a cut link, and stays silent.

Standard input, a JSON object a line: first `{"ports": [[listen, forward to, broker, clients?], ...], "seed": N}`, then
`{"rules": [...]}` as often as they change; each is answered by a line on standard output when it is in force. The end of
standard input ends the process: it does not outlive who started it, however that ended. FOLDER is not read; it is there to
be found in the list of processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import struct
import sys
from collections.abc import Sequence

from minikafka_chaos.links.rules import CLIENTS, NOTHING, LinkRule, Way, from_json

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16
CHUNKS_UNDER_WAY_MAX = 64
"""On one way of one connection; more is not read before something has arrived, as a full window would have it."""

HEADER = struct.Struct(">ihhih")
"""Length, API key, version, correlation id, length of the client id."""

CLIENT_ID = re.compile(rb"broker-(\d+)-")
CLIENT_ID_BYTES_MAX = 100


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

LOOK_SECONDS = 0.02
"""How often a closed port looks whether somebody listens behind it again."""


class Links:
    """The rules in force."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._rules: dict[Way, LinkRule] = {}
        self._changed = asyncio.Condition()

    async def set(self, rules: dict[Way, LinkRule]) -> None:
        async with self._changed:
            self._rules = rules
            self._changed.notify_all()

    def rule(self, way: Way) -> LinkRule:
        return self._rules.get(way, NOTHING)

    async def open(self, way: Way) -> None:
        """Wait until something can pass this way."""
        if self.rule(way).blocks:
            async with self._changed:
                await self._changed.wait_for(lambda: not self.rule(way).blocks)


class ProxiedConnection:
    """One that somebody opened to a broker, and its other half."""

    def __init__(self, links: Links, target: int, source: int | None) -> None:
        self._links = links
        self._target = target
        self._source = source

    async def run(self, here: Streams, beyond: Streams) -> None:
        """Until either side ends, and the other has learnt it."""
        (reader, writer), (there, back) = here, beyond
        try:
            first = b"" if self._source is not None else await self._first(reader)
            source = CLIENTS if self._source is None else self._source
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(Way(source, self._target), reader, back, first))
                both.create_task(self._pass(Way(self._target, source), there, writer, b""))
        except* OSError:
            pass
        finally:
            for end in (writer, back):
                end.transport.abort()

    async def _first(self, reader: asyncio.StreamReader) -> bytes:
        """The beginning of the first request; who sent it is `_source` from now on."""
        head = b""
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readexactly(HEADER.size)
            size = HEADER.unpack(head)[-1]
            if 0 < size <= CLIENT_ID_BYTES_MAX:
                name = await reader.readexactly(size)
                head += name
                if match := CLIENT_ID.match(name):
                    self._source = int(match[1])
        return head

    async def _pass(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes) -> None:
        """Read at once, write in order when the rule says; raises ConnectionResetError at the end, which ends the other way."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_UNDER_WAY_MAX)
        loop = asyncio.get_running_loop()

        async def read() -> None:
            chunk = first
            while True:
                if not chunk:
                    try:
                        chunk = await reader.read(CHUNK_BYTES)
                    except OSError:
                        chunk = b""
                late = self._links.rule(way).seconds(len(chunk), self._links.rng)
                await under_way.put((loop.time() + late, chunk))
                if not chunk:
                    return
                chunk = b""

        async def write() -> None:
            while True:
                when, chunk = await under_way.get()
                if (wait := when - loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self._links.open(way)
                if not chunk:
                    raise ConnectionResetError("the other side has hung up")
                writer.write(chunk)
                await writer.drain()

        async with asyncio.TaskGroup() as ends:
            ends.create_task(read())
            ends.create_task(write())


class ProxiedPort:
    """A port that stands for a broker's: open while somebody listens there."""

    def __init__(self, links: Links, listen: int, forward: int, broker: int, clients: bool) -> None:
        self._links = links
        self._listen = listen
        self._forward = forward
        self._broker = broker
        self._source = CLIENTS if clients else None
        self._server: asyncio.Server | None = None
        self._return: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises OSError for a port that is taken."""
        self._server = await asyncio.start_server(self._accepted, HOST, self._listen)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            beyond = await asyncio.open_connection(HOST, self._forward)
        except OSError:
            writer.transport.abort()
            if self._server is not None:
                self.close()
                self._return = asyncio.create_task(self._open_again())
            return
        await ProxiedConnection(self._links, self._broker, self._source).run((reader, writer), beyond)

    async def _open_again(self) -> None:
        """Open the port when somebody listens behind it again."""
        while self._server is None:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self._forward)
                writer.close()
                await self.open()


async def serve(links: Links, ports: Sequence[tuple[int, int, int, bool]]) -> list[ProxiedPort]:
    """Open the listeners. Raises OSError for a port that is taken."""
    opened = [ProxiedPort(links, *port) for port in ports]
    for port in opened:
        await port.open()
    return opened


async def main() -> int:
    """Exit codes: 0 standard input has ended, 3 a port is taken."""
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    asked = json.loads(await orders.readline())
    links = Links(asked["seed"])
    try:
        ports = await serve(links, [tuple(port) for port in asked["ports"]])
    except OSError as error:
        print(f"links: {error}", flush=True)
        return 3
    print("ok", flush=True)
    while line := await orders.readline():
        await links.set(from_json(json.loads(line)["rules"]))
        print("ok", flush=True)
    for port in ports:
        port.close()
    return 0


if __name__ == "__main__":
    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(main())
    sys.stdout.flush()
    # Whatever is still connected ends with the process: nobody waits for a link that may be cut.
    os._exit(code)
