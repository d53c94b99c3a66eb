# make demo and make test set up what is missing; they need only git, make and python3. See HACKING.md.

PRESET ?= release
VENV := .venv/bin
RUN := PYTHONPATH=python $(VENV)/python

cpp_files = $(shell git ls-files -co --exclude-standard '*.h' '*.cc' '*.cu')

.PHONY: demo test compat wheel build setup bench conformance models hunt peers docs lint tidy format clean

demo: build
	$(RUN) examples/demo.py

test: build
	ctest --preset $(PRESET)
	$(RUN) -m pytest -n auto --dist loadfile tests/python

# The same Python tests with the oldest and the newest torch and ONNX Runtime; COMPAT=torch-2.13.0 for one of them.
compat: build
	tools/compat.sh $(COMPAT)

# Wheels for any Linux with glibc 2.28, into build/wheel/dist.
wheel: build
	tools/wheel.sh
	$(RUN) -m pytest tests/python/test_wheel.py

build: setup
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)

setup:
	@tools/setup.sh

bench: build
	$(RUN) benchmarks/run.py
	$(RUN) benchmarks/operators.py
	PYTHONPATH=python:tests $(VENV)/python benchmarks/inference.py
	PYTHONPATH=python:tests $(VENV)/python benchmarks/quantized.py

# Every operator of torch.testing, every sample; an interrupted run is continued.
conformance: build
	PYTHONPATH=python:tests $(VENV)/python -m conformance --coverage docs/coverage.md

# Whole models of torchvision, timm and transformers; an interrupted run is continued.
models: build
	PYTHONPATH=python:tests $(VENV)/python -m zoo --table docs/models.md

# Random calls and programs, compared with eager PyTorch: a fresh seed each time unless SEED is given.
hunt: build
	PYTHONPATH=python:tests $(VENV)/python -m hunt --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED))

# The tests of another compiler, from its checkout: SUITE=torch-mlir or pnnx, ROOT=FOLDER.
peers: build
	PYTHONPATH=python:tests $(VENV)/python -m peers --suite $(SUITE) --root $(ROOT)

# The site, from docs/ into build/docs/site: open index.html there. tests/python/test_docs.py runs what its pages show.
docs: build
	@PRESET=$(PRESET) tools/build_docs.sh

lint: setup
	$(VENV)/clang-format --dry-run --Werror $(cpp_files)
	$(VENV)/ruff format --check
	$(VENV)/ruff check
	$(VENV)/mypy

# Slow, hence not part of lint. Debian's package clang-tidy brings the command.
tidy: build
	run-clang-tidy -quiet -p build/$(PRESET) '/(src|python|operators)/'

format: setup
	$(VENV)/clang-format -i $(cpp_files)
	$(VENV)/ruff format
	$(VENV)/ruff check --fix

clean:
	rm -rf build python/opbridge/lib python/opbridge/*.so
