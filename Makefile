PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SUITE = --spec-steps=0,1,2,3 --spec-concurrency=1,2,4
# more options for the judged run of the demo, and for the tests
DEMO =
MORE =
# tests start many short processes: without compiled modules each would compile them anew
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo screenshots test perf test-rig test-sglang test-vllm test-docs docs lint coverage clean

$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[demo,dev]'
	touch $@

## a real benchmark on this machine's CPU: recorded into a scratch folder, then judged against it
demo:
	@began=$$(date +%s) && \
	$(MAKE) --no-print-directory $(VENV)/.demo && \
	rm -rf .demo && mkdir .demo && \
	$(BIN)/pytest $(SUITE) --spec-baselines=.demo/baselines --update-baselines && \
	$(BIN)/pytest $(SUITE) --spec-baselines=.demo/baselines --spec-json=.demo/report.json --spec-html=.demo/report.html $(DEMO) && \
	echo "demo: $$(( $$(date +%s) - began )) s in all, downloads included"

## the demo's page in a real browser (Debian's chromium, else playwright's own), light, dark and as wide as a phone
screenshots:
	$(BIN)/python -m pip install --quiet playwright
	command -v chromium >/dev/null || $(BIN)/playwright install chromium
	$(BIN)/python tests/browser/shoot.py .demo/report.html .demo/screenshots

## everything that needs neither GPU nor root
test: $(VENV)/.dev
	$(BIN)/pytest -q -n2 $(MORE) tests/unit tests/cli tests/plugin tests/study
	$(BIN)/pytest -q $(MORE) tests/load tests/engines

## SSH, systemd, LXC: needs root on Debian 12 (tests/rig/README.md)
test-rig: $(VENV)/.dev
	SPECDECODE_RIG=1 $(BIN)/pytest $(MORE) tests/rig

SGLANG = .venv-sglang
# uv is several times faster: make test-sglang SGLANG_PIP="uv pip install --python .venv-sglang/bin/python"
SGLANG_PIP = $(SGLANG)/bin/python -m pip install --quiet

$(SGLANG)/.ready: tests/sglang/requirements.txt $(wildcard tests/sglang/standin/*.py tests/sglang/standin/*/*.py)
	test -x $(SGLANG)/bin/python || $(PYTHON) -m venv $(SGLANG)
	$(SGLANG_PIP) -r tests/sglang/requirements.txt
	$(SGLANG_PIP) --no-deps sglang==0.5.23
	$(SGLANG)/bin/python tests/sglang/standin/patch.py
	$(SGLANG)/bin/python tests/sglang/standin/models.py $(SGLANG)/models
	touch $@

## real SGLang servers on this CPU with stand-in kernels: by hand, about 15 minutes (tests/sglang/README.md)
test-sglang: $(VENV)/.dev $(SGLANG)/.ready
	SPECDECODE_SGLANG=$(CURDIR)/$(SGLANG) $(BIN)/pytest $(MORE) tests/sglang

## the load client at high rates, by hand on a quiet machine: accuracy, memory, cost (docs/load-client.md)
perf: $(VENV)/.dev
	$(BIN)/python -m tests.perf

## the documentation as a site in docs/_build, every warning an error
docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

## every command in docs/, page by page, with the real engine
test-docs: $(VENV)/.dev
	$(BIN)/pytest -q $(MORE) tests/docs

# torch's CPU build is not on PyPI: from where pip looks for wheels, else from PyTorch's own index
VLLM = .venv-vllm
WHEELS = $(or $(PIP_FIND_LINKS),$(shell $(BIN)/python -m pip config get global.find-links 2>/dev/null))
$(VLLM)/.ready: tests/vllm/requirements.txt tests/vllm/excluded.txt $(VENV)/.dev
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --seed --python $(BIN)/python $(VLLM)
	$(BIN)/uv pip install --quiet --python $(VLLM)/bin/python --requirements tests/vllm/requirements.txt \
	    --excludes tests/vllm/excluded.txt $(if $(WHEELS),--find-links $(WHEELS),--torch-backend cpu)
	touch $@

## vLLM's CPU build with models made on the spot: 2 GB in .venv-vllm the first time, no GPU
test-vllm: $(VLLM)/.ready
	SPECDECODE_VLLM=$(VLLM)/bin/python $(BIN)/pytest $(MORE) tests/vllm

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

coverage: $(VENV)/.dev
	$(BIN)/pytest --cov=pytest_specdecode --cov-report=term-missing:skip-covered

clean:
	rm -rf $(VENV) $(VLLM) .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
