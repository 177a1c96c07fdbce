"""Who talks to whom: TLS, SASL and principals, without sockets, clocks or settings files. Brokers and clients both use it."""
