"""MiniKafkaUser: its credentials, its ACLs and quotas, and the connection to brokers by which they are set."""
