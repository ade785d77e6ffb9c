# `make help` says what there is. Every target makes the environment it needs, in .venv.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= python3

# The parameters cell of a chapter decides the preset unless PRESET does.
PRESET ?=
CHAPTER ?=
URL ?=
TAG ?=
# Of the campaign; without SEED one is drawn.
SEED ?=
SCALE ?= 1

STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

.PHONY: help env book site serve execute lint check test bench campaign colab package publish
.PHONY: browser address clean

help: ## show this list
	@echo "The T-VAE book. Two commands suffice: make test, make book."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  make book PRESET=paper            with the settings of the paper (a GPU and the full data)"
	@echo "  make execute CHAPTER=04_bound     one chapter only"
	@echo "  make campaign SEED=1 SCALE=0.05   a trial of the campaign, in a few minutes"
	@echo "  make address URL=https://...      move the repository to another address"

# torch and torchvision in one call, without versions: they have to come from the same place.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed; name one with PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[book,test]'
	@touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[book,test,bench]'
	@touch $@

env: $(STAMP) ## make the environment in .venv

book: $(STAMP) ## execute every chapter (PRESET=quick, book or paper) and render the site
	$(BIN)/python scripts/execute.py --into _build/executed $(if $(PRESET),--preset $(PRESET))
	$(BIN)/python scripts/render.py --executed _build/executed

site: $(STAMP) ## render the site from the stored outputs, without executing anything
	$(BIN)/python scripts/render.py

serve: $(STAMP) ## the site on localhost, rendered again when a page changes
	$(BIN)/python scripts/serve.py

execute: $(STAMP) ## refresh the outputs stored in the chapters (CHAPTER=04_bound for one)
	$(BIN)/python scripts/execute.py $(if $(CHAPTER),book/$(basename $(notdir $(CHAPTER))).ipynb)

lint: $(STAMP) ## linters of the code and of the book, type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/lint_book.py
	$(BIN)/mypy

check: lint ## linters, type checker and the fast tests, for every edit: under two minutes
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadscope -m "not slow" tests

test: lint ## linters, type checker, all tests, and all chapters compared with their stored outputs
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadscope \
		--nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg tests book

bench: $(BENCH_STAMP) ## measure speeds, beside those of other libraries
	$(BIN)/python benchmarks/run.py

campaign: $(STAMP) ## kills, bad disks, damaged files, odd users: half an hour (SEED=..., SCALE=...)
	$(BIN)/python campaign/main.py $(if $(SEED),--seed $(SEED)) --scale $(SCALE)

colab: $(STAMP) ## execute the chapters with the package versions that Colab has
	$(BIN)/python scripts/colab.py

package: $(STAMP) ## wheel, source archive and weights of a release into dist/ (TAG=v1.2.3)
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python scripts/package.py $(if $(TAG),--tag "$(TAG)")

publish: ## put dist/ onto the repository's release page (TAG=v1.2.3; needs GitHub's gh)
	gh release create "$(TAG)" --verify-tag --generate-notes dist/packages/* dist/weights/* dist/SHA256SUMS

browser: ## install the browser that the tests of the site drive (Debian, Ubuntu)
	test -x /usr/bin/chromium || { sudo apt-get update -q && sudo apt-get install -y -q --no-install-recommends chromium; }

address: $(STAMP) ## move the repository's public address to URL=...
	@test -n "$(URL)" || { echo "Say which: make address URL=https://github.com/name/repository" >&2; exit 1; }
	$(BIN)/python scripts/address.py "$(URL)"

clean: ## remove what was built and what tools left behind; .venv stays
	rm -rf _build book/api dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -print0 | xargs -0 rm -rf
