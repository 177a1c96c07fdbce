"""The cluster's certificates, who signs them, and what brokers are told of TLS and logins."""
