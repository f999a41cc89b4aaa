# make book   build the site and serve it (no torch needed)     make lab      open the notebooks
# make test   every check                                       make notebooks [NAME=12]
# make quick  what changed, within a minute [NAME=12]           make measure, make clean
# make site   build the site only
#
# PYTHON       the interpreter that .venv is made of, 3.11 to 3.13
# TORCH_INDEX  an index with a CPU-only torch: TORCH_INDEX=https://download.pytorch.org/whl/cpu
# PORT         where `make book` serves

PYTHON ?= python3
TORCH_INDEX ?=
PORT ?= 8000
NAME ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check
TORCH := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
SITE := _build/html

.PHONY: book site test quick lab notebooks measure clean

ifneq ($(shell test -w . && echo writable),writable)
$(error this folder cannot be written to, and the book is built in it: copy it to one of your own)
endif

book: site
	@$(BIN)/python -m book serve $(SITE) $(PORT)

site: $(VENV)/.book
	@$(BIN)/python -m book site

test: $(VENV)/.test
	@$(BIN)/python -m book chromium
	@$(BIN)/python -m book test

lab: $(VENV)/.lab
	@$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root)

quick: $(VENV)/.test
	@$(BIN)/python -m book quick $(NAME)

notebooks: $(VENV)/.test
	@$(BIN)/python -m book build $(NAME)

measure: $(VENV)/.test
	@$(BIN)/python benchmarks/measure.py

clean:
	rm -rf _build .cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed; set PYTHON=..., for example PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.book: $(BIN)/python requirements-book.txt constraints.txt pyproject.toml
	@echo "installing what the site needs"
	@$(INSTALL) -r requirements-book.txt
	@$(INSTALL) --no-deps -e .
	@touch $@

$(VENV)/.lab: $(VENV)/.book requirements.txt
	@echo "installing torch and JupyterLab"
	@$(INSTALL) $(TORCH) -r requirements.txt
	@touch $@

$(VENV)/.test: $(VENV)/.lab requirements-test.txt
	@echo "installing what the checks need"
	@$(INSTALL) $(TORCH) -r requirements-test.txt
	@touch $@
