"""Sockets: frames and TLS on them, listeners, connections to other brokers, keys of access tokens, HTTP. Knows no broker."""
