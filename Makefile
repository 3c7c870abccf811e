# Every target works on a fresh clone: it makes .venv, installs what it needs into it, and runs.
# A stamp in .venv says what is installed; it is written last, so that a failed install is tried again.

PYTHON ?= python3
VENV ?= .venv
VERSIONS ?= 3.11 3.12 3.13 3.14
ARGS ?=
SECONDS ?= 300

# Workers are fresh interpreters: without files of bytecode, each of them would compile feedline anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Python sources are not listed: the install is editable, so they are always current.
BUILT_FROM := pyproject.toml CMakeLists.txt $(wildcard native/core/* native/bind/*)
CPP_SOURCES := $(wildcard native/*/*.h native/*/*.cc)
FUZZERS = $(basename $(notdir $(wildcard native/fuzz/fuzz_*.cc)))

CLANGXX ?= $(notdir $(firstword $(foreach name,clang++ $(foreach n,22 21 20 19 18 17 16 15 14,clang++-$(n)),\
	$(shell command -v $(name)))))
CMAKE := $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) \
	-DPython_EXECUTABLE=$(abspath $(BIN)/python)

# Processes that run tests: one more than there are cores, because some tests mostly wait; each takes 1.5 GB.
TESTERS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))

.PHONY: help demo test test-all explore check format native-test fuzz bench clean

help:
	@echo "make demo         write a small dataset, read it, verify it, repair a damaged copy"
	@echo "make test         the tests and the doctests       (ARGS='-k verify' to choose)"
	@echo "make test-all     the tests with each Python of VERSIONS='$(VERSIONS)'"
	@echo "make explore      new random cases for SECONDS=$(SECONDS); what fails becomes a case of make test"
	@echo "make check        ruff, mypy, clang-format, import-linter"
	@echo "make format       let ruff and clang-format rewrite the sources"
	@echo "make native-test  the C++ tests under AddressSanitizer and UBSan"
	@echo "make fuzz         each fuzzer for SECONDS=$(SECONDS) (needs clang)"
	@echo "make bench        feedline against its rivals; writes benchmarks/results"
	@echo "make clean        remove .venv, build and the tools' caches; .cache stays"

demo: $(VENV)/.built
	@$(BIN)/feedline demo

test: $(VENV)/.built $(VENV)/.test $(VENV)/.offered
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile $(ARGS)

# Each version has its own environment; .venv serves for the version it was made with.
test-all:
	@failed=; ran=; for version in $(VERSIONS); do \
		python=$$(.ci/find-python $$version) || continue; \
		venv=.venv-$$version; ! [ -x .venv/bin/python$$version ] || venv=.venv; \
		echo "Python $$version: $$python, $$venv"; ran="$$ran $$version"; \
		$(MAKE) --no-print-directory test PYTHON=$$python VENV=$$venv || failed="$$failed $$version"; \
	done; \
	echo "Tested with Python:$${ran:- none}. Failed:$${failed:- none}."; [ -n "$$ran" ] && [ -z "$$failed" ]

explore: $(VENV)/.built $(VENV)/.test
	$(BIN)/python -m tests.explore $(SECONDS) $(ARGS)

check: $(VENV)/.built $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP_SOURCES)
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

native-test: $(VENV)/.built $(VENV)/.dev
	$(CMAKE) -B build/native-test -DFEEDLINE_NATIVE_TESTS=ON
	$(BIN)/cmake --build build/native-test
	$(BIN)/ctest --test-dir build/native-test/native/tests --output-on-failure --no-tests=error

fuzz: $(VENV)/.built $(VENV)/.dev
	@test -n "$(CLANGXX)" || { echo "The fuzzers need clang with libFuzzer, and no clang++ was found." \
		"On Debian or Ubuntu:  apt install clang-16 libclang-rt-16-dev"; exit 1; }
	$(CMAKE) -B build/fuzz -DFEEDLINE_FUZZERS=ON -DCMAKE_CXX_COMPILER=$(CLANGXX)
	$(BIN)/cmake --build build/fuzz
	@for fuzzer in $(FUZZERS); do \
		mkdir -p .cache/fuzz/$$fuzzer && \
		build/fuzz/native/fuzz/$$fuzzer -max_total_time=$(SECONDS) -print_final_stats=1 \
			-artifact_prefix=.cache/fuzz/$$fuzzer. .cache/fuzz/$$fuzzer || exit 1; \
	done

bench: $(VENV)/.built $(VENV)/.bench
	$(BIN)/python -m benchmarks.harness all

clean:
	rm -rf .venv .venv-3.* build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "feedline needs Python 3.11 or newer; $(PYTHON) is older or missing. To choose another:" \
		" make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The build is isolated: pip fetches scikit-build-core, nanobind, and CMake and Ninja where they are missing.
$(VENV)/.built: $(BUILT_FROM) | $(VENV)/.made
	$(PIP) --editable .
	@touch $@

# The packages of an extra alone: `pip install .[test]` would compile feedline once more for each extra.
$(VENV)/.test $(VENV)/.dev $(VENV)/.bench: $(VENV)/.%: pyproject.toml | $(VENV)/.built
	@$(BIN)/python -c "import tomllib; extras = tomllib.load(open('pyproject.toml', 'rb'))['project']\
	['optional-dependencies']; print(*extras['$*'], sep='\n')" > $(VENV)/$*.txt
	$(PIP) --requirement $(VENV)/$*.txt
	@touch $@

# What some tests need and not every machine can have; tried once. torch only as the CPU build, which not every
# package index has: the ordinary one brings gigabytes of CUDA packages.
$(VENV)/.offered: | $(VENV)/.test
	@timeout 600 $(PIP) --retries 1 "torch==2.13.0+cpu" 2>/dev/null || true
	@command -v redis-server >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || \
		{ timeout 300 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -qq -y redis-server; } \
		>/dev/null 2>&1 || true
	@touch $@
