# All targets set up what they need themselves; `make help` lists them. The work is done by the scripts in tools/.

SHELL := bash
RUN := .venv/bin/python
.DEFAULT_GOAL := help

.PHONY: help demo venv test quick full bill adversary apiserver e2e e2e-full e2e-nodes kind kind-down check bench bench-judging bench-spark simulated judged-runs judges format docs
.PHONY: lock sbom audit clean scenarios compare examples spec site fuzz crashes suites

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

demo: ## break three brokers on this machine, judge what was lost, write runs/<id>/report.html
	@tools/venv demo
	@tools/system java
	@$(RUN) -m minikafka_analytics.commands.archive_classes
	@$(RUN) -m minikafka.cli demo $(ARGS)

venv: ## .venv with everything that the Python parts need
	@tools/venv all

test: venv ## every subsystem on this machine, in minutes; no container engine is needed; ARGS='-k isr' for some
	@tools/system java maven nftables iproute2
	@tools/test $(ARGS)

quick: venv ## unit tests without a JVM and without the slow ones, a few simulated schedules: a minute; ARGS='-k isr' for some
	@tools/test --quick $(ARGS)

full: venv ## everything: what is rare, slow or a repetition, too, the API server and a kind cluster: hours
	@tools/system java maven nftables iproute2 chromium
	@$(RUN) -m minikafka_analytics.commands.archive_classes
	@tools/parts --all --record tests/bill/full.tsv 'tools/test --full' 'make examples' 'make site' 'make apiserver ARGS=--full' \
	  'make spec ARGS="search replay mistakes --runs 200"' 'make e2e-full'

examples: venv ## services in Python, Go, Java and Node: each fails its test as it was, and passes mended; ARGS=go for one
	@tools/system golang java maven nodejs npm
	@tools/examples $(ARGS)

bill: venv ## what each test file costs, measured anew, into docs/internals/tests.md; ARGS=tests/interop for some
	@tools/system java maven nftables iproute2 chromium
	@$(RUN) -m minikafka_analytics.commands.archive_classes
	@$(RUN) -m tests.bill $(ARGS)

scenarios: venv ## every scenario: 50 seeds in simulation, then on processes (an hour); ARGS='-k zombie' for some
	@MINIKAFKA_TEST_SEEDS=50 MINIKAFKA_TEST_SCENARIOS=all $(RUN) -m pytest -q --timeout 1800 \
	  tests/simulation/test_library.py tests/integration/test_library.py $(ARGS)

spec: venv ## judge the broker by a formal specification of one partition; `make full` leaves out most; ARGS='replay --schedules 5' for some
	@tools/system nodejs npm
	@$(RUN) -m tests.specification $(ARGS)

adversary: venv ## plant bugs into a copy, one at a time: which suite notices? ARGS='m07 s*' for some
	@$(RUN) -m tests.adversary $(ARGS)

apiserver: venv ## the cluster store and the operator on a real Kubernetes API server (built the first time: minutes); ARGS=--full for all
	@MINIKAFKA_E2E_BIN=$$(tests/e2e/cluster/binaries) $(RUN) -m pytest -q -s -n 3 --dist loadscope --durations 5 --timeout 1200 tests/apiserver $(ARGS)

e2e: venv ## the short form of the tests on a kind cluster; makes engine, cluster and images itself (root on Debian)
	@tools/e2e $(ARGS)

e2e-full: venv ## all tests on a kind cluster, apart from those of `make e2e-nodes`; ARGS='-k story' for some
	@tools/e2e --full $(ARGS)

e2e-nodes: venv ## the same journeys' part that needs three nodes (in neither of the two)
	@MINIKAFKA_E2E_WORKERS=2 MINIKAFKA_E2E_CLUSTER=$${MINIKAFKA_E2E_CLUSTER:-mk-e2e-nodes} tools/e2e $(ARGS)

kind: ## a kind cluster on this machine with the operator in it, and what to do with it
	@tools/kind up

kind-down: ## remove the cluster of `make kind`
	@tools/kind down

check: venv ## format, lint, types, import contracts, generated files
	@tools/check

compare: venv ## ask Apache Kafka and MiniKafka every API with odd input: a quarter of an hour; ARGS='--only Fetch' for some
	@tools/system java maven
	@$(RUN) -m tests.interop.compare_answers $(ARGS)

suites: venv ## other people's test suites against brokers; needs a network the first time; ARGS=kafka-go for one
	@tools/system golang iproute2
	@$(RUN) -m tests.suites $(ARGS)

fuzz: venv ## search for inputs that break a reader of others' bytes: half an hour; ARGS='--seconds 60 --target requests'
	@tools/venv fuzz
	@$(RUN) -m tests.fuzz $(ARGS)

bench: venv ## side by side with Apache Kafka on this machine; ARGS=--full for the long form
	@tools/system java maven
	@$(RUN) -m bench.run $(ARGS)

bench-judging: venv ## CPU and memory of a verdict on up to ten million sends (7 GB of scratch files); ARGS='--sends 1000000'
	@$(RUN) -m bench.judging $(or $(ARGS),--sends 100000 1000000 10000000)

simulated: venv ## share of the broker's lines that 300 schedules of the simulator run; ARGS='--seeds 1..50 --files'
	@$(RUN) tools/simulated_share.py $(ARGS)

crashes: venv ## what a crash may leave of a broker's files, at every prefix of its system calls: minutes; ARGS='--seed 3 --states 50'
	@$(RUN) -m minikafka_simulator.commands.crashes $(ARGS)

judged-runs: venv ## a thousand simulated runs, simulator bugs on and off, whose verdicts are held against the disks; ARGS='--runs 100'
	@$(RUN) -m bench.judged_runs $(or $(ARGS),--runs 1000)

bench-spark: venv ## core seconds and memory of the Spark analysis as runs grow; ARGS='--sizes 1 --faults 100'
	@tools/system java
	@$(RUN) -m minikafka_analytics.commands.archive_classes
	@$(RUN) -m bench.spark_scale $(or $(ARGS),--sizes 1,10,100 --write)

judges: venv ## simulated runs judged by the verifier and by Spark; RUNS=1000 for the long form
	@tools/system java
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  $(RUN) -m bench.judged_runs --runs $(or $(RUNS),20) --keep "$$folder" && $(RUN) -m bench.judged_twice "$$folder"

format: venv ## let ruff put files in form
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

docs: venv ## write the generated files anew (tools/generated.py has the table)
	@$(RUN) -m tools.generated --write

site: ## the documentation as a site in build/site; a link to nothing ends it
	@tools/venv docs
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet --strict
	@echo "build/site/index.html; with search: python3 -m http.server --bind 127.0.0.1 --directory build/site"

sbom: venv ## what the package and the images are made of, as CycloneDX in build/sbom; ARGS='--file-system broker=PATH' for Debian's packages too
	@$(RUN) -m tools.supply.sbom $(ARGS)

audit: venv ## ask a database of advisories about each locked version (needs a network; ADVISORIES=pypi for PyPI's)
	@tools/audit $(ARGS)

lock: ## requirements.lock for a changed pyproject.toml; ARGS=--upgrade for the newest versions of all
	@tools/lock $(ARGS)

clean: ## remove .venv and caches; runs/ stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.* build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
