# Every target makes its own virtual environment in .venv when there is none.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PROTOCOL ?= coopetition-standard
# Two workers share the compiled drivers through numba's cache on disk.
WORKERS ?= 2

.PHONY: report test lint bench docs wheel format clean

report: $(VENV)/.core
	$(BIN)/coopbench evaluate $(PROTOCOL)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/typecheck.py

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.core
	$(BIN)/coopbench bench
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/pairs.py
	$(BIN)/python benchmarks/resampling.py

docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/plots.py
	$(BIN)/mkdocs build --strict --quiet

# A wheel in an empty virtual environment must do the main job, too.
wheel: $(VENV)/.test
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build/wheel/*.whl
	cd build/wheel && venv/bin/coopbench evaluate coopetition-standard
	test -s build/wheel/results/coopetition-standard/report.html

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "setuptools>=77" wheel
	$(PIP) --no-build-isolation -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --no-build-isolation -e ".[test,lint]"
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) --no-build-isolation -e ".[docs]"
	touch $@

clean:
	rm -rf build results site .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
