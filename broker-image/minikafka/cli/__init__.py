"""The `minikafka` command: one module a subcommand, each with ``add_arguments(parser)`` and ``run(args)``."""
