"""The network between brokers of one machine, breakable without privileges: a proxy before their listeners, by link."""
