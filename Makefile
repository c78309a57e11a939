# Everything a person types. Variables are given after the target: make up ENGINE=fake TOKENYARD_WEB_PORT=8100
.DEFAULT_GOAL := help
.PHONY: help up agent status logs manage down reset test test-engine check format lock base dev compiled
MAKEFLAGS += --no-print-directory
export PYTHONUTF8 := 1

BOOTSTRAP := PYTHON='$(PYTHON)' deploy/local/bootstrap.sh
PY := .venv/bin/python
is_set = $(filter-out 0 no false,$(1))

help: ## what can be typed
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables   ENGINE=auto|vllm|llamacpp|fake  DETACH=1  YES=1  TOKENYARD_VAR=./var  TOKENYARD_WEB_PORT=8000"
	@echo "              TOKENYARD_GATEWAY_PORT=8080  TOKENYARD_GATEWAY_ADMIN_PORT=8081  TOKENYARD_ENGINE_PORT_BASE=9000"
	@echo "              TOKENYARD_GATEWAY_PROCESSES=1"

up: base compiled ## start everything and print where it is (DETACH=1 returns when ready)
	@$(PY) -m deploy.local up $(if $(call is_set,$(DETACH)),--detach)

agent: base ## make this machine a node (JOIN=… as the console prints it, NAME=, DIR=, GATEWAY_URL=, GATEWAY_PORT=)
	@$(PY) -m workers.agent.join --join '$(JOIN)' --directory '$(or $(DIR),var/agent)' $(if $(NAME),--name '$(NAME)') \
		$(if $(GATEWAY_URL),--gateway-url '$(GATEWAY_URL)') $(if $(GATEWAY_PORT),--gateway-port '$(GATEWAY_PORT)')

status: base ## what runs, since when, restarted how often
	@$(PY) -m deploy.local status

logs: base ## follow every log
	@$(PY) -m deploy.local logs

manage: base ## a command of manage.py in the stack that runs (ARGS='simulate --help')
	@$(PY) -m deploy.local manage $(ARGS)

down: base ## stop everything
	@$(PY) -m deploy.local down

reset: base ## stop everything and delete its data (YES=1 does not ask)
	@$(PY) -m deploy.local reset $(if $(call is_set,$(YES)),--yes)

test: dev compiled ## unit, integration, one real model, one browser journey
	@$(PY) -m deploy.tests

test-engine: dev ## the gateway against real vLLM on the CPU (first time: a download of about 800 MB)
	@$(PY) -m pytest tests/engine --durations=10

check: dev ## static checks
	@$(PY) -m deploy.checks

format: dev ## what the formatter and the safe fixes can do
	@.venv/bin/ruff check --fix . && .venv/bin/ruff format .

lock: dev ## resolve requirements/*.in again
	@$(PY) -m deploy.lock

base:
	@$(BOOTSTRAP) base

# Without a C compiler everything runs interpreted.
compiled:
	@$(PY) -m workers.compiled || true

dev:
	@$(BOOTSTRAP) dev
