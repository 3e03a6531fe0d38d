# What there is to do: make setup, demo, dist, check-dist, test, test-sinks, test-brokers, test-kafka, test-fleet, check-fleet,
# check-cuda, check-features, lint, bench-overhead, bench-sim, bench-reserve, bench-partitioned, bench-accuracy, bench-cameras,
# bench-cascades, bench-generating, bench-route, bench-queues, bench-memory, bench-routing, bench-fleet, bench-fleet-live,
# bench-shared, bench-idle-connections, bench-watchers, bench-counts, bench-per-track, bench-gears, bench-accept, bench-reports,
# bench-links, soak, fuzz, fuzz-api, page-pictures, compare-live, gpu-check, crash-jobs, reproduce-pard, reproduce-ppipe,
# reproduce-ken, reproduce-goodserve, reproduce-qlm, docs, clips, train, clean, bench-box, bench-openings, crash-jobs-fleet, python.
# Every target sets up what it needs.

.PHONY: all build setup demo dist check-dist test test-sinks test-brokers test-kafka test-fleet check-fleet check-cuda \
	check-features lint bench-overhead bench-sim bench-reserve bench-partitioned bench-accuracy bench-cameras \
	bench-cascades bench-generating bench-route bench-queues bench-memory bench-routing bench-fleet bench-fleet-live \
	bench-shared bench-idle-connections bench-watchers bench-counts bench-per-track bench-gears bench-accept bench-reports \
	bench-links soak fuzz fuzz-api page-pictures compare-live gpu-check crash-jobs reproduce-pard reproduce-ppipe reproduce-ken \
	reproduce-goodserve reproduce-qlm docs clips train clean bench-box bench-openings crash-jobs-fleet python
.DEFAULT_GOAL := build

CARGO ?= cargo
# Which application `make demo` shows: traffic-monitoring, live-video or game-analysis.
APP ?= traffic-monitoring
# Length of each live run of `make compare-live`.
SECONDS_EACH ?= 120
# Features of release builds: sinks and traces whose crates are heavy, the CUDA provider where setup fetched its library, and in
# packages, or with WEIR_FLEET=1, fleets, which take minutes to compile.
SINKS := kafka nats parquet
FEATURES = --features "$(SINKS) otlp$(if $(filter 1,$(WEIR_CUDA)), cuda)$(if $(filter 1,$(WEIR_FLEET)), fleet)"

all: build

# Packages, FFmpeg and ONNX Runtime; does nothing where they are there. WEIR_CUDA=1 takes the CUDA build.
setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --locked -p weir $(FEATURES)

# Packages of a release build, into dist/: a tarball and a .deb.
dist: WEIR_FLEET := 1
dist: build
	@scripts/dist.sh

# The packages in a bare root of Debian: they install, and the demo runs. As root; some minutes.
check-dist: dist
	@scripts/check-dist.sh

# One clip through one application: a table with its accuracy, an events file, an annotated video. PUBLIC=1 takes public
# models and a clip of the asset pack.
demo: build
	@scripts/demo.sh $(APP)

# Tests that need the asset pack look for it in WEIR_ASSETS and say so when they skip.
test: setup
	@scripts/test.sh

# The package for Python, with its tests, in a virtual environment: apart from `make test`, since it compiles the product once more.
# WHEEL=1 makes a release wheel in dist/ instead.
python: setup
	@scripts/python.sh

# The sink that writes Parquet, which a plain build leaves out: lints and tests of it alone. All packages are built together, as in
# `make test`, so that what the feature does not concern is built once.
test-sinks: setup
	$(CARGO) clippy --workspace --features weir/parquet --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --features weir/parquet --locked --test operators --test cli -- features:: parquet:: sinks::

# Sinks and traces behind features: lints and tests of them alone. All packages are built together, as in `make test`, so that
# what these features do not concern is built once.
OF_FEATURES := $(foreach sink,$(SINKS),weir/$(sink)) weir/otlp
test-brokers: setup
	$(CARGO) clippy --workspace --features "$(OF_FEATURES)" --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --features "$(OF_FEATURES)" --locked --test cli --test jobs --test operators -- \
		archive_fleet:: contract:: features:: parquet:: programs:: secure:: sinks:: traces::
	$(CARGO) test --workspace --features "$(OF_FEATURES)" --locked --lib -- server:: sinks:: traces::

# The sink `kafka` against the mock cluster of librdkafka, which is compiled for it.
test-kafka: setup
	$(CARGO) test --workspace --features "weir-tests/kafka" --locked --test kafka

# What the feature `fleet` brings, which plain builds leave out: it compiles without warnings.
check-fleet: setup
	$(CARGO) clippy --workspace --features weir/fleet --all-targets --locked -- -D warnings

# Nodes that come and go, intruders, three engines that share streams, and partitions on workers of a fleet. All packages are built
# together, as in `make test`, so that what the feature does not concern is built once.
test-fleet: setup
	$(CARGO) test --workspace --features weir/fleet --locked --test fabric --test intruders
	$(CARGO) test --workspace --features weir/fleet --locked --test cli -- fleet:: fleet_workers::
	$(CARGO) test --workspace --features weir/fleet --locked --lib -- fleet:: keys:: members::

# What the feature `cuda` brings, which plain builds leave out: it compiles without warnings, also on a machine without CUDA, and the
# tests that need no GPU pass with it.
check-cuda: setup
	$(CARGO) clippy --workspace --features weir/cuda --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --features weir/cuda --locked --lib -- gpu:: pixels::device media::hardware

# What plain builds leave out: all of it compiles without warnings, its tests too, and the tests of the Parquet sink and of the feature
# `cuda` that need neither a broker nor a GPU pass.
check-features: setup
	$(CARGO) clippy --workspace --features "$(OF_FEATURES) weir/cuda weir/fleet" --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --features "weir/parquet weir/cuda" --locked --test operators --test cli -- features:: parquet:: sinks::
	$(CARGO) test --workspace --features "weir/parquet weir/cuda" --locked --lib -- gpu:: pixels::device media::hardware

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --all-features check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and dependency directions are not checked"; fi

# Engine overhead against the bare limit of the machine, and the cost of single decisions.
bench-overhead: setup
	@scripts/bench-overhead.sh

# PARD's evaluation, run again in the simulator: tables and figures into docs/reproduction/pard. Needs cargo alone.
reproduce-pard:
	@scripts/reproduce.sh pard

# PPipe's evaluation, run again: tables and figures into docs/reproduction/ppipe. Needs cargo alone.
reproduce-ppipe:
	@scripts/reproduce.sh ppipe

# KEN's evaluation, run again with published profiles of the asset pack, into docs/reproduction/ken. Needs cargo alone.
reproduce-ken:
	@scripts/reproduce.sh ken

# GoodServe's evaluation, run again with published step times of the asset pack, into docs/reproduction/goodserve. Needs
# cargo alone.
reproduce-goodserve:
	@scripts/reproduce.sh goodserve

# QLM's evaluation, run again with recorded token lengths and published step times of the asset pack, into
# docs/reproduction/qlm. Needs cargo alone.
reproduce-qlm:
	@scripts/reproduce.sh qlm

# The live engine against the simulator, on the same graphs, arrivals and emulated devices: six minutes of live runs.
compare-live: setup
	@scripts/compare-live.sh --seconds $(SECONDS_EACH)

# The simulator: events a second on one core, and memory, with a million requests through five modules. Needs cargo alone.
bench-sim:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-sim

# Reservations: probing pools of 100 devices, and a dispatch on a cluster of 100. Needs cargo alone.
bench-reserve:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-reserve

# A router's decision over 512 instances, and 10,000 requests a second over them simulated on one core. Needs cargo alone.
bench-route:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-route

# Routing live: three workers that take 1, 2 and 4 times as long, one of which is killed and comes back; then detection on such
# parts of the processor. About nine minutes. Needs the asset pack.
bench-routing: build
	@scripts/bench-routing.sh

# Virtual queues with 400,000 requests: an arrival, and a plan of all groups. Needs cargo alone.
bench-queues:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-queues

# What devices with memory and virtual queues cost where everything is in memory, in the simulator. Needs cargo alone.
bench-memory:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-memory

# A fleet of 100 engines and 5,000 streams in virtual time, with engines that fail and load that swings. Needs cargo alone.
bench-fleet:
	@$(CARGO) run --release --locked -p weir-reproduction --bin bench-fleet

# Three engines of a fleet with 24 emulated cameras: goodput, takeover, and half an hour of engines that come and go. CHURN_S is its length.
bench-fleet-live: WEIR_FLEET := 1
bench-fleet-live: build
	@python3 benches/soak/fleet.py "$(or $(WEIR),$(or $(CARGO_TARGET_DIR),target)/release/weir)" out/fleet

# Cascades beside graphs without one that do the same work, and a decision on the gear. Needs cargo alone.
bench-cascades:
	@$(CARGO) run --release --locked -p weir-benches --bin cascades

# Tokens a second of a model that generates, by sequences at a time and their past, beside a bare loop. Needs the asset pack.
bench-generating:
	@$(CARGO) run --release --locked -p weir-benches --bin generating

# The engine is killed 100 times while it works on six jobs, and 100 times more with the last bytes of its store cut off each time;
# results must be those of an undisturbed run.
crash-jobs:
	WEIR_KILLS=100 WEIR_KILL_JOBS=6 $(CARGO) test --workspace --locked --test cli -- --nocapture archive_jobs::crashes::a_killed

# The same for six jobs of a queue on a server, over three engines: they and the server are killed at random, 50 times.
crash-jobs-fleet: setup
	WEIR_KILLS=50 WEIR_KILL_JOBS=6 $(CARGO) test --workspace --features weir/nats --locked --test cli -- --nocapture \
		archive_fleet::killed archive_fleet::two_engines

# Counts, dwell times and speeds on ten minutes of a street, from its true boxes and from shaken ones. These do not depend on the light:
# what night and rain do shows with events=FILE alone, from what a detector found in rendered clips (docs/analytics.md).
bench-counts:
	@$(CARGO) run --release --locked -p weir-videos --no-default-features --example street_counts

# Traffic monitoring on 16 cameras with modules that read in every frame, and per track, in turn: four minutes.
bench-per-track: build
	@scripts/bench-per-track.py

# Plates that are read by gears, by the large and by the small models alone, under a load that rises and falls.
bench-gears: build
	@scripts/bench-gears.py

# Reports in words on every frame of a clip at half of what this machine sustains, and at all of it: four minutes.
bench-reports: build
	@scripts/bench-reports.py

# Traffic monitoring with its detector over three worker processes, one of which is killed and started again.
bench-partitioned: setup
	@scripts/bench-partitioned.sh $(ARGS)

# Partitions of a model over machines whose links lose, delay and break, each in a network namespace: five minutes. Needs root.
bench-links: WEIR_FLEET := 1
bench-links: build
	@scripts/bench-links.py $(ARGS)

# What delivering what is known is worth where the next stage of a cascade would be late, on labelled plates of the asset pack: two
# minutes.
bench-accept: build
	@scripts/bench-accept.py $(or $(WEIR_ASSETS),../shared/assets) $(ARGS)

# The three demos on one box with memory for five of their thirteen nets: cameras and archive jobs, by each rule of `[policy] queues`,
# with and without warm start. About twenty minutes.
bench-box: build
	@scripts/bench-box.py $(ARGS)

# How long nets open, cold and warm, beside what they run: those that ship, and those of the asset pack.
bench-openings: build
	@scripts/bench-openings.py $(or $(WEIR_ASSETS),../shared/assets)

# What is said under twice the load that this machine sustains, against what is said without; APP as for the demo.
bench-accuracy: build
	@scripts/bench-accuracy.sh $(APP)

# Detection on 4, 16, 32 and 64 cameras, decoded as needed and whole, in turn, then the graph of traffic monitoring on 16:
# ten minutes. WEIR_PYTHON, a Python with benches/reference/requirements.txt, adds a plain loop that keeps the latest frame.
bench-cameras: build
	@scripts/bench-cameras.sh
	@scripts/bench-cameras.sh --graph traffic --clips original --cameras 16

# Detection alone and beside endless loops of equal priority that are switched on and off every five seconds; GRAPH=traffic
# for three models.
bench-shared: build
	@scripts/bench-shared-machine.sh

# The service at twice what the machine sustains, while streams come and go, cameras fail, a reader stalls and a model loses
# batches; afterwards the books. SOAK_SECONDS is its length, 1800 where it is not given.
soak: build
	@scripts/soak.sh

# Goodput under overload with a thousand idle connections to the API, and without, in turn: three minutes.
bench-idle-connections: build
	@scripts/bench-idle-connections.sh

# Goodput under overload with fifty watchers of the page with eight tiles each, and without, in turn: three minutes.
bench-watchers: build
	@scripts/bench-watchers.sh

# Pictures of the page in several states, wide and narrow, light and dark, into out/page, to be looked at.
page-pictures: setup
	$(CARGO) test --locked -p weir --test cli -- page_pictures:: --ignored --nocapture --test-threads 1

# Edited inputs on every reader of bytes from outside, each for MINUTES (10); ONLY=wire for those whose names begin so. FUZZ_SEED chooses
# the inputs and is printed; a failure prints the input.
fuzz: setup
	FUZZ_SEED=$(or $(FUZZ_SEED),$(shell date +%s)) FUZZ_SECONDS=$$(( $(or $(MINUTES),10) * 60 )) $(CARGO) test --workspace --locked \
		--lib --test graph --test sim -- fuzz_$(ONLY) --nocapture --test-threads 1

# Five minutes of requests of all kinds to a service, drawn from docs/openapi.json; FUZZ_SEED says which.
fuzz-api: setup
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),300) $(CARGO) test --locked -p weir --test cli -- api_fuzz:: --nocapture

# Models and the engine on this machine's GPU: out/gpu-check/gpu-check.md and .json. Needs a driver and Rust alone; WEIR_BIN and
# ORT_DYLIB_PATH take what was carried along. Without a GPU it says so in one line.
gpu-check:
	@scripts/gpu-check.sh

docs: setup
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# The clips and the gallery in videos/, rendered again with their truth.
clips: setup
	@scripts/render-clips.sh

# The nets in models/, trained again from scratch: about two hours on two cores. NET="icon gaze" for some of them.
# PyTorch comes by pip into out/training.
train: setup
	@scripts/train-models.sh $(NET)

clean:
	$(CARGO) clean
	rm -rf out .runtime
