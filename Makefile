# Two commands: `make demo` and `make test`. The others are parts of them or take longer.

# A toolchain of rustup that a non-interactive shell does not find by itself.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Also where no terminal is.
export CARGO_TERM_PROGRESS_WHEN ?= auto

CARGO ?= cargo
NESTOR := target/nestor
# Asked when it is used: before `packages` there may be no compiler.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
# How many inputs `make fuzz` makes up for each property, and how long it fuzzes each reader.
FUZZ_CASES ?= 20000
FUZZ_SECONDS ?= 60
# What runs the notebook docs/results.ipynb: 540 MB, nearly all of it pandas and matplotlib, so that only tests install it.
NOTEBOOK_PACKAGES := jupyter-nbconvert python3-ipykernel python3-matplotlib python3-pandas

# Where tests find what was built or fetched for them.
TEST_FILES = NESTOR_TEST_BINARY=$(CURDIR)/$(NESTOR) NESTOR_TEST_AXE=$(CURDIR)/target/axe/axe.min.js

.PHONY: help demo test test-long fuzz bench lint build lab deb pictures clean packages test-packages

help:
	@echo "make demo       install packages, build, make the lab image, run the study quick (some 15 minutes)"
	@echo "make test       everything that has to hold, with a real run on an emulated host"
	@echo "make test-long  the same with the tests that take minutes each"
	@echo "make fuzz       every reader fuzzed for FUZZ_SECONDS=$(FUZZ_SECONDS), the property tests with FUZZ_CASES=$(FUZZ_CASES) inputs"
	@echo "make bench      speed of the parts, beside the programs they are measured against"
	@echo "make lint       formatting, clippy, licences"
	@echo "make build      the program, as $(NESTOR)"
	@echo "make deb        a Debian package of the program, in target/"
	@echo "make pictures   the pictures of README and docs, from real runs (some 20 minutes)"
	@echo "make lab        the lab image, unless it is there"
	@echo "make clean      removes what was built here; the lab image stays in the user's cache"

packages:
	@scripts/install-packages

test-packages:
	@scripts/install-packages $(NOTEBOOK_PACKAGES)
	@scripts/fetch-axe target/axe

build: packages
	@echo "building the program, which takes some minutes the first time"
	@$(CARGO) build $(BUILD_OPTIONS) --release --locked --package nestor
	@ln -sfn "$(HOST)/release/nestor" $(NESTOR)

lab: build
	$(NESTOR) lab build

# Whoever runs it wants to see the findings: what leads to them is a few lines.
demo: BUILD_OPTIONS = --quiet
demo: build
	@$(NESTOR) lab build >/dev/null
	@$(NESTOR) study quick --quiet

deb: build
	scripts/make-deb $(NESTOR) target

lint: packages
	$(CARGO) fmt --all --check
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
		set -x; $(CARGO) clippy --locked --workspace --all-targets -- -D warnings; \
	else echo "clippy is not installed: not checked"; fi
	scripts/check-licences

# The release build comes first: the tests that boot machines use it. What is made up by chance (fuzzing, property tests) is
# the same on every clone here; `make fuzz` looks for more.
test: test-packages lint build lab
	$(TEST_FILES) $(CARGO) test --locked --workspace
	FUZZ_SEED=1 scripts/fuzz 5

test-long: test-packages lint build lab
	$(NESTOR) lab pack xen
	$(NESTOR) lab pack libvirt
	$(NESTOR) lab pack transfer
	$(NESTOR) lab pack virtualbox
	NESTOR_TEST_LAB=1 scripts/test-deb "$$(scripts/make-deb $(NESTOR) target)"
	$(TEST_FILES) $(CARGO) test --locked --workspace -- --include-ignored

fuzz: packages
	FUZZ_FEATURES=study scripts/fuzz $(FUZZ_SECONDS)
	PROPTEST_RNG_SEED=$$(date +%s) PROPTEST_CASES=$(FUZZ_CASES) $(CARGO) test --release --locked --workspace --lib

bench: build
	$(CARGO) bench --locked --workspace --bench '*'

pictures: lab
	scripts/make-pictures $(NESTOR)

clean:
	$(CARGO) clean
