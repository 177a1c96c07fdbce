"""Replication, sans I/O: what a leader and a follower of one partition do, and nothing of how bytes travel.

The theory in a page. A partition is a log kept by several brokers. One of them leads, in a term numbered by the *leader
epoch*; the others follow by fetching, and the offset at which a follower fetches says what it has. The leader keeps the
*in-sync replicas* (ISR): those that keep up. The *high watermark* (HW) is the smallest log end offset (LEO) among them;
what lies below it is committed, is all that consumers see, and is what a new leader taken from the ISR must have.

Three rules keep that true while brokers die. A change of the ISR counts only when the controller has written it, and until
then the leader uses the larger of the two sets (the *maximal ISR*) for the HW (KIP-497). A replica that lost its place finds
where its log diverges from the leader's by epochs, not by its own HW, and truncates there (KIP-101, KIP-279, KIP-595). And
below ``min.insync.replicas`` the HW stands still, so that whoever leaves then still holds all that is committed (KIP-966).

``Partition`` is the object; ``leader`` and ``follower`` hold the two roles; ``isr`` the state of an ISR change. All are
deterministic: time comes in as an argument, the log is a parameter, and what must happen outside is returned.
"""
