# make book   build the site and serve it (no torch needed)     make lab      open the notebooks
# make test   every check                                       make notebooks [NAME=12]
# make site   build the site only                               make measure, make clean
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

.PHONY: book site test lab notebooks measure clean

ifneq ($(shell test -w . && echo writable),writable)
$(error this folder cannot be written to, and the book is built in it: copy it to one of your own)
endif

book: site
	@$(BIN)/python -m book._tools.serve $(SITE) $(PORT)

site: $(VENV)/.book
	@$(BIN)/python -m book._tools.site

test: $(VENV)/.test
	@$(BIN)/python -m book._tools.browser
	@$(BIN)/python -m book._tools.checks

lab: $(VENV)/.lab
	@$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root)

notebooks: $(VENV)/.test
	@$(BIN)/python -m book._tools.equations fill
	@$(BIN)/python -m book._tools.prose_numbers fill
	@$(BIN)/python -m book._tools.notebooks build $(NAME)
	@$(if $(NAME),true,$(BIN)/python -m book._tools.labs build)
	@$(BIN)/python -m book._tools.generated write

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

$(VENV)/.test: $(VENV)/.book requirements.txt requirements-test.txt
	@echo "installing torch and what the checks need"
	@$(INSTALL) $(TORCH) -r requirements-test.txt
	@touch $@

$(VENV)/.lab: $(VENV)/.book requirements.txt requirements-lab.txt
	@echo "installing torch and JupyterLab"
	@$(INSTALL) $(TORCH) -r requirements-lab.txt
	@touch $@
