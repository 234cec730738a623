# The door. Everything behind it is in xtask.
# One target folder for all checkouts of a user: DataFusion takes minutes to build.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/alluvia/target
XTASK = ./xtask/setup.sh cargo run --quiet --locked --package xtask --

.PHONY: demo sql test lint bench wheel docs check-data deb dist sim canaries soak fuzz trust

demo: ## Builds, ingests while it queries, shows freshness at work, exits 0. DATA=FILE runs it on your file.
	@$(XTASK) demo $(if $(DATA),--data $(DATA))

sql: ## make sql DIR=...: a prompt on the database in DIR, which is created if it is not there.
	@$(XTASK) sql $(DIR)

test: ## Everything CI runs.
	@$(XTASK) test

lint: ## Format, clippy, house rules, licences.
	@$(XTASK) lint

bench: ## make bench NAME=load|insert|freshness|tpch|box|star|curves|sample|skip|thin|mixed|wire|upsert|partial|annihilation|scu|point|cluster|tpcc-wire|ch|pgbench [ROWS=20m] [SF=1] [ARGS='...']
	@$(XTASK) bench $(NAME) $(if $(ROWS),--rows $(subst m,000000,$(ROWS))) $(if $(SF),--sf $(SF)) $(ARGS)

wheel: ## The Python package: prints the path of its wheel, for pip install.
	@$(XTASK) wheel

docs: ## API documentation, with links checked.
	@$(XTASK) docs

check-data: ## make check-data DIR=...: every checksum and invariant of a data directory.
	@$(XTASK) check-data $(DIR)

deb: ## The Debian package, from this checkout's program or from PROGRAM=FILE; says where it lies.
	@$(XTASK) deb $(PROGRAM)

dist: ## What is given to others: archive, wheel, Debian package and checksums, for any x86-64-v3 Linux with glibc 2.28 or later. A second full build.
	@$(XTASK) dist

sim: ## make sim SEED=...: replays a seed of the simulation of the whole engine, and prints its trace.
	@$(XTASK) sim $(SEED)

canaries: ## Every planted bug, what it does, and the test that finds it; fails if one is found by none.
	@$(XTASK) canaries

soak: ## Crash tests for DURATION (default 1h), then histories of tables with keys, the models of the index on random tables, random statements beside DuckDB, three machines whose links are dropped (as root), and 100,000 generated statements.
	@$(XTASK) soak $(or $(DURATION),1h)

fuzz: ## SQL text, messages of PostgreSQL's clients, HTTP requests and Flight's calls against the server, for DURATION (default 1m each). ALLUVIA_TEST_SEED replays.
	@$(XTASK) fuzz $(or $(DURATION),1m)

trust: ## The figures of docs/RELIABILITY.md, made again; the last line is JSON. ARGS='damage kills' runs some of the proofs.
	@$(XTASK) trust $(ARGS)
