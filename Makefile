# Every target makes its own virtual environment in .venv when there is none.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PROTOCOL ?= coopetition-standard
# Two workers share compiled code through the store on disk.
WORKERS ?= 2
# Training of each example of `interop`; enough to show that everything fits together.
STEPS ?= 4000

.PHONY: report test test-all test-elsewhere test-oldest test-newest mutants lint format bench peers
.PHONY: docs docs-anew wheel release interop interop-envs cuda cuda-ptx clean

report: $(VENV)/.core
	@echo "Playing $(PROTOCOL); coopetition-standard takes a minute and a half of one core."
	@echo "Finished cells are kept in results/$(PROTOCOL): the same command resumes."
	$(BIN)/coopbench evaluate $(PROTOCOL)

# The default tier: all tests but those marked slow; with ARGS a part of them.
test: $(VENV)/.test
	$(if $(ARGS),,$(WARMUP))
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)

# Every test, with the processor time that they take, and the site built from nothing.
test-all: $(VENV)/.test
	$(WARMUP)
	$(MAKE) docs-anew
	$(BIN)/python -m pytest -n $(WORKERS) --processor-times $(ARGS)

# Compiled before the tests, so that no two workers compile the same code.
WARMUP = $(BIN)/coopbench warmup --workers $(WORKERS)

# The default tier under another user id, on other Pythons, and with whatever else differs between
# machines.
test-elsewhere:
	.ci/elsewhere

# A part of the tests with the lowest versions that pyproject.toml allows, and with the newest
# versions on the newest Python here; not part of `.ci/run`.
test-oldest:
	.ci/oldest

test-newest:
	.ci/newest

# Small faults in the sources that the tests must catch; takes hours, goes on where it stopped.
mutants: $(VENV)/.test
	$(BIN)/python -m studies.checks.mutants --workers $(WORKERS) $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m studies.checks.typecheck

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# With a GPU: its results against those of the CPU, then its speed.
cuda: $(VENV)/.cuda
	$(BIN)/python -m pytest -n 8 --dist loadgroup studies/checks/on_gpu.py $(ARGS)
	$(BIN)/python benchmarks/gpu.py

# Without one: what the code of every environment consists of, and what it computes, rewritten in C.
# Takes three quarters of an hour of one core.
cuda-ptx: $(VENV)/.test
	COOPBENCH_PTX=all $(BIN)/python -m pytest -s tests/test_ptx.py -k "operations or play" $(ARGS)

bench: $(VENV)/.core
	$(BIN)/python benchmarks/games.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/routing.py
	$(BIN)/python benchmarks/pairs.py
	$(BIN)/python benchmarks/vectors.py
	$(BIN)/python benchmarks/skirmish.py
	$(BIN)/python benchmarks/peers.py

# Other packages whose speed `make bench` compares, each in its own virtual environment; with `-k`
# those that can be installed. Two of them need a checkout, see their requirements.
PEERS := $(patsubst benchmarks/peers/requirements-%.txt,%,$(wildcard benchmarks/peers/requirements-*.txt))
peers: $(PEERS:%=build/peers/%/.ready)

build/peers/%/.ready: benchmarks/peers/requirements-%.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

docs: $(VENV)/.docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/plots.py
	$(BIN)/python docs/gallery.py
	$(BIN)/mkdocs build --strict

# The same with every picture drawn again.
docs-anew:
	rm -rf docs/environments/plots docs/gallery site
	$(MAKE) docs

# The wheel of this platform, with compiled code. In an empty virtual environment it must play every
# environment, do the main job, and verify and replay its episodes without numba.
ALONE := venv/bin/python ../../.ci/without_numba.py
wheel: $(VENV)/.test
	rm -rf build/wheel build/lib build/bdist.* build/kernels && mkdir -p build/wheel
	COOPBENCH_WHEEL=1 COOPBENCH_KERNELS=$(CURDIR)/build/kernels $(BIN)/coopbench warmup --workers $(WORKERS)
	COOPBENCH_WHEEL_KERNELS=build/kernels $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build/wheel/*.whl
	cd build/wheel && $(ALONE)
	cd build/wheel && $(ALONE) evaluate coopetition-standard --task trust-dilemma --out played
	cd build/wheel && $(ALONE) verify played && $(ALONE) replay played/trust-dilemma/random/0
	test -s build/wheel/played/report.html

# Everything that a release puts on an index, built from the last commit and tried in empty virtual
# environments; nothing is uploaded. With PYTHONS= without compiled code, which takes most of the time.
release: $(VENV)/.release
	.ci/release $(VENV)

# EPyMARL has no package: a checkout of one commit, in a folder of that name.
EPYMARL_COMMIT := cbc38c09588064eab978501d0f12c2cf58fa7fc2
EPYMARL := build/interop/epymarl-$(EPYMARL_COMMIT)
$(EPYMARL):
	git init --quiet $@.part
	git -C $@.part fetch --quiet --depth 1 https://github.com/uoe-agents/epymarl $(EPYMARL_COMMIT)
	git -C $@.part checkout --quiet FETCH_HEAD
	mv $@.part $@

# Examples with libraries that ask for versions of their own, each in its own virtual environment.
interop: build/interop/rllib/.ready build/interop/torchrl/.ready $(EPYMARL)
	build/interop/rllib/bin/python -m pip install --quiet --disable-pip-version-check -c build/interop/rllib/constraints.txt -e ".[test-tools]"
	build/interop/rllib/bin/python -m pytest -n 0 tests/test_backends.py tests/test_client_snippets.py -k "ray or rllib"
	PYTHONHASHSEED=0 build/interop/rllib/bin/python examples/rllib_ppo.py --steps $(STEPS)
	build/interop/torchrl/bin/python examples/torchrl_ippo.py --steps $(STEPS)
	build/interop/torchrl/bin/python examples/benchmarl_mappo.py --steps $(STEPS)
	build/interop/torchrl/bin/python examples/benchmarl_qmix.py --steps $(STEPS)
	build/interop/torchrl/bin/python examples/epymarl_qmix.py $(EPYMARL) --steps 2000

# Environments of other packages, with the real packages.
interop-envs: build/interop/envs/.ready
	build/interop/envs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps pogema==1.4.0
	build/interop/envs/bin/python examples/other-environments/play.py

build/interop/%/.ready: examples/requirements-%.txt pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	grep -v '^gymnasium=' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt "setuptools>=77" wheel
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt --no-build-isolation -r $< -e .
	touch $@

# Python compiles a module when it is first imported: compiling all of them takes ten seconds, and a
# report imports few.
$(VENV)/.core: pyproject.toml constraints.txt
	@echo "Installing into $(VENV): about one minute."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "setuptools>=77" wheel
	$(PIP) --no-compile --no-build-isolation -e .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) --no-build-isolation -e ".[test,lint,cuda]"
	touch $@

$(VENV)/.cuda: $(VENV)/.test
	$(PIP) --no-build-isolation -e ".[train]"
	touch $@

$(VENV)/.release: $(VENV)/.core
	$(PIP) --no-build-isolation -e ".[release]"
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) --no-build-isolation -e ".[docs]"
	touch $@

# Type checkers find the packages by links in build, which the next target that installs makes again.
clean:
	rm -f $(VENV)/.core
	rm -rf build results site .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +
