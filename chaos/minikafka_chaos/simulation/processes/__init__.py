"""What stands around a simulated broker: its event loop in virtual time, TCP and store in memory, and who asks it."""
