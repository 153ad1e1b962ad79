# Each target sets up what it needs on a machine that has only Python 3.11+ and make.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.ready

.PHONY: demo demo-server test test-spark check bench bench-peers bench-nist targets figures docs audit seconds trust fuzz dist browser everything clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "sidelight needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)            ## quantiles with and without side information, in the terminal and as report.html
	$(BIN)/sidelight demo

demo-server: $(STAMP)     ## a server on generated people with two analysts, and what to paste
	$(BIN)/python -m sidelight.cli.demo_server build/demo-server

# Containers often ask Python to keep no compiled files; tests that start processes would then compile everything anew in each.
test audit seconds: export PYTHONDONTWRITEBYTECODE =

# One worker has the first half of the tests, the other the second, and who is done first takes over from the other: what a
# file of tests prepares is then prepared once, not once in each worker.
WORKERS = -n 2 --dist worksteal

test: $(STAMP)            ## checks and the tests (minutes)
	$(MAKE) check
	$(BIN)/pytest $(WORKERS) -m "not slow and not spark" --disable-warnings

test-spark: $(STAMP)      ## the tests on Spark: gets Java and PySpark where it can, and says so where it cannot
	@command -v java > /dev/null || apt-get install --yes --quiet --no-install-recommends openjdk-17-jre-headless > /dev/null 2>&1 || true
	@if command -v java > /dev/null && $(BIN)/pip install --quiet --disable-pip-version-check --editable ".[spark]"; \
	then $(BIN)/pip install --quiet --disable-pip-version-check --editable ".[spark-connect]" || true; \
	$(BIN)/pytest tests/spark -m spark --disable-warnings; \
	else echo "skipped: the tests on Spark need Java 17 or later, and PySpark from the package index"; fi

check: $(STAMP)           ## style, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

audit: $(STAMP)           ## the long statistical audits, and the trust page with their numbers
	$(BIN)/python -m benchmarks.trust_page --long
	$(BIN)/pytest $(WORKERS) -m "slow and not spark" --timeout 1200 --disable-warnings -rf

seconds: $(STAMP)         ## what each test takes, measured now for the choice of those that `make test` runs (half an hour)
	SIDELIGHT_SECONDS=1 $(BIN)/pytest $(WORKERS) -m "not slow and not spark" --disable-warnings

trust: $(STAMP)           ## quick audits of everything, and docs/trust.md with their numbers (minutes)
	$(BIN)/python -m benchmarks.trust_page

fuzz: $(STAMP)            ## random inputs for ten minutes; guided by coverage where atheris can be installed
	-$(BIN)/pip install --quiet --disable-pip-version-check atheris
	$(BIN)/python tests/audits/fuzz_targets.py $(or $(SECONDS),60)
	$(BIN)/python tests/audits/fuzz_targets.py --guided $(or $(SECONDS),60)

bench: $(STAMP)           ## the speed table
	$(BIN)/python -m benchmarks

bench-peers: $(STAMP)     ## OpenDP, diffprivlib, SmartNoise, PyDP, Tumult, InterpretML and us asked the same, and the page in the docs (about an hour; slow ones are given ten minutes each)
	$(BIN)/python -m benchmarks.peers.page $(if $(ONLY),--only "$(ONLY)")

bench-nist: $(STAMP)      ## synthetic tables of NIST's excerpts, and the page in the docs (a quarter of an hour; SIDELIGHT_PATIENT=1 runs AIM, too)
	$(BIN)/python -m benchmarks.nist_page

targets: $(STAMP)         ## every target, measured now; ONLY=quantiles for one group
	$(BIN)/python -m benchmarks.targets $(if $(ONLY),--only $(ONLY))

figures: $(STAMP)         ## Figures 1 to 6 of the paper, quick, into build/figures; fails when a trend does not show
	$(BIN)/python -m benchmarks.figures

docs: $(STAMP)            ## HTML documentation in docs/_build
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[docs]"
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html

dist: $(STAMP)            ## source distribution and wheel in dist/, installed into a clean environment and tried there
	$(BIN)/pip install --quiet --disable-pip-version-check build
	rm -rf dist build/installed
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/installed
	build/installed/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && installed/bin/python -c "import sidelight as sl; print(sl.Quantiles([0.5], epsilon=1).release([1.0, 2.0, 3.0]))"
	cd build && installed/bin/sidelight demo --draws 4 --output installed/report.html
	printf 'patient,age\n7,31\n' > build/installed/visits.csv
	cd build/installed && ! bin/sidelight init visits.csv --person patient --number age:0:110:1
	for wheel in dist/*.whl; do build/installed/bin/pip install --quiet --disable-pip-version-check "$$wheel[files]"; done
	cd build/installed && bin/sidelight init visits.csv --person patient --number age:0:110:1

browser:                  ## Debian's Chromium and npm's axe, for the tests in a browser (they are skipped without them)
	command -v chromium || apt-get install --yes --quiet --no-install-recommends chromium
	test -f build/package/axe.min.js || (mkdir -p build && cd build && npm pack --silent axe-core@4 && tar -xzf axe-core-4*.tgz package/axe.min.js)

everything: $(STAMP)      ## all of it on one tree, one after the other: hours, on an idle machine; says at the end which failed
	@failed=; for each in test demo audit figures bench-peers targets; do $(MAKE) $$each || failed="$$failed $$each"; done; \
	echo "failed:$${failed:- nothing}"; test -z "$$failed"

clean:
	rm -rf $(VENV) docs/_build docs/reference/api report.html dist build
