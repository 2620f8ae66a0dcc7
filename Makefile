# make demo   sets everything up, and shows a real recording being transcribed live
# make test   sets everything up, and runs all checks and tests
#
# The other targets are their parts. Run again, each does only what changed since.

PYTHON = python3
VENV = .venv
RECORDINGS = tests/data/en_read/jfk.flac tests/data/en_read/ljspeech/LJ001-0001.flac \
             tests/data/multi/de/kerstin/de_rhasspy-0155.flac
SOURCES = $(shell find daemon clients native -type f -not -name '*.pyc') pyproject.toml

export PYTHON
.NOTPARALLEL:
.PHONY: demo test lint native-test pytest sanitize model install test-packages clean

demo: model
	$(VENV)/bin/python tools/demo.py $(RECORDINGS)

test: lint native-test pytest

lint: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy --package stenod
	$(VENV)/bin/mypy tools

native-test: install test-packages
	tools/native-tests $(VENV) plain

pytest: model test-packages
	$(VENV)/bin/pytest --numprocesses=2 --dist=worksteal

# The native tests once more, under sanitizers: for CI, and after work on the native part.
sanitize: install test-packages
	tools/native-tests $(VENV) address,undefined
	tools/native-tests $(VENV) thread

model: install
	$(VENV)/bin/stenod models pull whisper-base

install: $(VENV)/installed

$(VENV)/installed: $(VENV)/build-tools $(SOURCES)
	$(VENV)/bin/pip install --no-build-isolation '.[dev]'
	touch $@

$(VENV)/build-tools: pyproject.toml tools/install-build-tools
	tools/system-packages
	$(PYTHON) -m venv $(VENV)
	tools/install-build-tools $(VENV)
	touch $@

test-packages:
	tools/system-packages tests

clean:
	rm -rf $(VENV) build
