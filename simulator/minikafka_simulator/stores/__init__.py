"""The cluster stores of a simulation: SQLite's transactions in memory, and the store on a simulated Kubernetes."""
