"""Mistakes in who is let in: TLS, SASL, and who counts as a broker (31 item 1)."""

from __future__ import annotations

from minikafka_chaos.simulation.bugs.bug import Bug

DOOR, TLS, SCRAM = (
    "tests/unit/server/test_authentication.py",
    "tests/unit/security/test_tls.py",
    "tests/unit/security/test_scram.py",
)

SECURITY = (
    Bug("p01", "strangers are served", "KIP-43", "server/authentication.py",
        "        if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):\n"
        "            name = NAMES.get(key, f\"API key {key}\")\n",
        "        if key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):\n            return False\n",
        (DOOR,)),
    Bug("p02", "SCRAM: any proof of the right length will do", "RFC 5802", "security/scram.py",
        "        if not hmac.compare_digest(_hash(self._mechanism, _xor(proof, signature)), found.stored_key):\n",
        "        if False:\n",
        (SCRAM,)),
    Bug("p03", "PLAIN: any password of a user will do", "RFC 4616", "security/sasl_server.py",
        "        if known is None or not right:\n", "        if known is None:\n", (SCRAM,)),
    Bug("p04", "a session never ends", "KIP-368", "server/authentication.py",
        "        if now > self._ends and key != ApiKey.API_VERSIONS:\n", "        if False:\n", (DOOR,)),
    Bug("p05", "a session may become another user's", "KIP-368", "server/authentication.py",
        "        if self._is_open and principal != self._connection.principal:\n", "        if False:\n", (DOOR,)),
    Bug("p06", "an unknown user shows at the first step of SCRAM", "31", "security/sasl_server.py",
        "                false = decoy(self._mechanism, user, self._secret)\n",
        "                if not self._known:\n                    raise ScramError(\"wrong password\")\n"
        "                false = decoy(self._mechanism, user, self._secret)\n",
        (SCRAM,)),
    Bug("p07", "who logs in at the brokers' port is a broker", "31, decision 005", "server/connection.py",
        "            self.inter_broker = False\n", "            pass\n", (DOOR,)),
    Bug("p08", "changed certificates are never read", "31", "security/tls.py",
        "        if signature != self._signature:\n", "        if False:\n", (TLS,)),
    Bug("p09", "names in certificates are not looked at", "RFC 6125", "security/tls.py",
        "    context.check_hostname = settings.endpoint_identification\n", "    context.check_hostname = False\n", (TLS,)),
    Bug("p10", "clients need no certificate", "31", "security/tls.py",
        "    context.verify_mode = CLIENT_AUTH[settings.client_auth]\n", "    context.verify_mode = ssl.CERT_NONE\n", (TLS,)),
    Bug("p11", "a failed login is answered at once", "KIP-306", "server/authentication.py",
        "        self._timer = connection.loop.call_later(delay, hang_up)\n", "        hang_up()\n", (DOOR,)),
    Bug("p12", "ciphertext that the socket does not take is lost", "31", "security/tls_stream.py",
        "            self._unsent = self._unsent[sent:]\n", "            self._unsent = memoryview(b\"\")\n", (TLS,)),
    Bug("p13", "what was decrypted while frames were held stays where it is", "31", "server/framing.py",
        "        if self.tls is not None and self.tls.established:\n            self._decrypt(self.tls)\n"
        "        if not self._held:\n",
        "        if not self._held:\n",
        ("tests/unit/server/test_framing.py",)),
    Bug("p14", "a recorded login counts again: the server's nonce is not looked at", "RFC 5802", "security/scram.py",
        "        if not hmac.compare_digest(match[\"nonce\"].encode(), self._nonce.encode()):\n", "        if False:\n",
        (SCRAM,)),
    Bug("p15", "the user's authorization id is not looked at", "RFC 4616", "security/sasl_server.py",
        "        if acts_as and acts_as != user:\n", "        if False:\n", (SCRAM,)),
    Bug("p16", "a stranger may send as much as a guest", "KIP-684", "server/authentication.py",
        "        connection.max_frame_bytes = min(self._max_frame_bytes, self._broker.config.sasl_server_max_receive_size)\n",
        "",
        (DOOR,)),
)  # fmt: skip
