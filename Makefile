# Every command here does its own set-up; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
NAME ?=
# Without compiled bytecode every vLLM process spends another 15 s on its imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## make .venv with everything pinned in requirements/dev.txt
	@tools/bootstrap

.PHONY: run
run: setup  ## real agents on a real vLLM under FCFS, VTC and Justitia: a table and a report
	@$(PYTHON) -m justitia bench

.PHONY: test
test: setup  ## the test suite: no cluster, no GPU
	@$(PYTHON) -m pytest -n 2 --dist loadfile -q

.PHONY: test-tools
test-tools:  ## fetch Helm and promtool, without which the chart's and alerts' tests are skipped
	@tools/helm --install
	@tools/promtool --install

.PHONY: verify
verify: setup  ## regenerate, lint, type-check, check the import contracts; as pre-commit does
	@$(PYTHON) -m pre_commit run --all-files --show-diff-on-failure

.PHONY: generate
generate: setup  ## regenerate code and documents that are derived
	@tools/generate

.PHONY: bench
bench: setup  ## run a benchmark: make bench NAME=core; without a name all, and docs/benchmarks.md
	@$(PYTHON) tools/bench $(NAME)

.PHONY: evaluation
evaluation: setup  ## the paper's evaluation and ours: reports/evaluation, docs/evaluation.md (half an hour)
	@$(PYTHON) -m justitia sim reproduce --markdown docs/evaluation.md

.PHONY: e2e
e2e: e2e-engine e2e-cluster  ## the real vLLM server, then the chart on a real Kubernetes; options as below

.PHONY: e2e-engine
e2e-engine: setup  ## the real vLLM server on this machine with the scheduler service
	@$(PYTHON) -m pytest -q e2e/engine

.PHONY: e2e-cluster
e2e-cluster: setup  ## a Kubernetes of the tests' own (root, Debian, Go) or yours: KUBECONFIG=FILE; more: FULL=1
	@$(if $(filter command,$(firstword $(origin KUBECONFIG))),JUSTITIA_E2E_KUBECONFIG=$(KUBECONFIG)) \
	  $(if $(FULL),JUSTITIA_E2E_FULL=$(FULL)) $(PYTHON) -m pytest -q -rs e2e/cluster

.PHONY: recordings
recordings: setup  ## record the runs that predictors learn from, on the real small model (hours; goes on where it stopped)
	@$(PYTHON) -m justitia record
	@$(PYTHON) -m justitia record --runs 625 --output examples/recordings/long/runs.jsonl.gz \
	  $(addprefix --application ,alfworld-interaction equation-verification fact-verification kbqa-verification)
