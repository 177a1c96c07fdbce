"""What processes stand on: virtual time, the event loop in it, the network, and TCP over it."""
