"""``python -m minikafka_chaos.controller``. One line where the installation lacks an extra, for this needs two."""

import sys

BAD_INPUT = 2

try:
    from minikafka_chaos.controller.main import main
except ModuleNotFoundError as error:
    if (error.name or "").startswith("minikafka"):
        raise
    need = "needs the extras 'kubernetes' and 'operator': pip install 'minikafka[kubernetes,operator]'"
    print(f"minikafka_chaos.controller: {need} ({error})", file=sys.stderr)
    sys.exit(BAD_INPUT)

sys.exit(main())
