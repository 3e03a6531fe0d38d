# `make setup`, `build`, `demo` and `test` are where to begin; CONTRIBUTING.md names the others. Every target sets up what it needs.
# `make bench`, `make reproduce` and `make test-features` list the names that they take.

.PHONY: build setup demo dist check-dist test test-features check-features lint python cross bench reproduce compare-live soak soak-site \
	crash-jobs crash-jobs-fleet fuzz fuzz-api gpu-check page-pictures docs clips train clean
.DEFAULT_GOAL := build

CARGO ?= cargo
# Name of a benchmark, of a publication or of a feature, for targets that stand for several.
NAME ?=
# Which application `make demo` shows: traffic-monitoring, live-video or game-analysis.
APP ?= traffic-monitoring
# Length of each live run of `make compare-live`.
SECONDS_EACH ?= 120
# Features of release builds: sinks and traces whose crates are heavy, the CUDA provider where setup fetched its library, and in
# packages, or with WEIR_FLEET=1, fleets, which take minutes to compile.
SINKS := kafka mail nats parquet
FEATURES = --features "$(SINKS) otlp$(if $(filter 1,$(WEIR_CUDA)), cuda)$(if $(filter 1,$(WEIR_FLEET)), fleet)"

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

# The package for Python, with its tests, in a virtual environment: apart from `make test`, since it compiles the product once more
# (about fifty crates, some ten minutes on two cores, where `target` has a build of the main workspace).
# WHEEL=1 makes a release wheel in dist/ instead; with CROSS=aarch64 it is for that machine, in dist/aarch64/, and is tried under emulation.
python: $(if $(CROSS),,setup)
	@scripts/python.sh

# The command for aarch64, cross-compiled on an x86-64 Debian; it and the tests of crates without I/O run under emulation. Installs the
# cross-compiler, FFmpeg for arm64 and QEMU by apt. Writes out/cross/report.txt.
cross:
	@scripts/cross.sh

# Lints and tests of one feature that plain builds leave out: `make test-features NAME=fleet`. All packages are built together, as in
# `make test`, so that what the feature does not concern is built once.
define FEATURE_LIST
  parquet   the sink that writes Parquet
  mail      the sink that sends mails
  brokers   sinks and traces behind features, together: mail, NATS, Kafka, Parquet, OpenTelemetry
  kafka     the sink `kafka` against the mock cluster of librdkafka, which is compiled for it
  fleet     nodes that come and go, intruders, engines that share streams, partitions on workers of a fleet
  cuda      the feature `cuda`, also on a machine without CUDA: lints, and the tests that need no GPU
endef
OF_FEATURES := $(foreach sink,$(SINKS),weir/$(sink)) weir/otlp
CLIPPY = $(CARGO) clippy --workspace --all-targets --locked --features
TEST = $(CARGO) test --workspace --locked --features
TEST_PARQUET = --test operators --test cli -- features:: parquet:: sinks::
TEST_MAIL = --test operators --test cli --lib -- features:: mail:: sinks::
TEST_CUDA = --lib -- gpu:: pixels::device media::hardware

define test-parquet
	$(CLIPPY) weir/parquet -- -D warnings
	$(TEST) weir/parquet $(TEST_PARQUET)
endef
define test-mail
	$(CLIPPY) weir/mail -- -D warnings
	$(TEST) weir/mail $(TEST_MAIL)
endef
define test-brokers
	$(CLIPPY) "$(OF_FEATURES)" -- -D warnings
	$(TEST) "$(OF_FEATURES)" --test cli --test jobs --test operators -- \
		archive_fleet:: contract:: features:: parquet:: programs:: secure:: sinks:: traces::
	$(TEST) "$(OF_FEATURES)" --lib -- server:: sinks:: traces::
endef
define test-kafka
	$(TEST) weir-tests/kafka --test kafka
endef
define test-fleet
	$(CLIPPY) weir/fleet -- -D warnings
	$(TEST) weir/fleet --test fabric --test intruders
	$(TEST) weir/fleet --test cli -- fleet:: fleet_workers::
	$(TEST) weir/fleet --lib -- fleet:: keys:: members::
endef
define test-cuda
	$(CLIPPY) weir/cuda -- -D warnings
	$(TEST) weir/cuda $(TEST_CUDA)
endef

test-features: $(if $(test-$(NAME)),setup)
	$(or $(test-$(NAME)),$(call list,FEATURE_LIST))

# Prints the names that a target takes and ends in an error, which says whether one was given.
list = $(info $($1))$(error $(if $(NAME),there is no $(NAME): ,)make $@ NAME=... takes one of the names above)

# Everything that plain builds leave out: all of it compiles without warnings, its tests too, and the tests of the sinks for Parquet and
# mail and of the feature `cuda` that need neither a broker nor a GPU pass.
check-features: setup
	$(CLIPPY) "$(OF_FEATURES) weir/cuda weir/fleet" -- -D warnings
	$(TEST) "weir/mail weir/parquet weir/cuda" $(TEST_PARQUET)
	$(TEST) "weir/mail weir/parquet weir/cuda" $(TEST_MAIL)
	$(TEST) "weir/mail weir/parquet weir/cuda" $(TEST_CUDA)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --all-features check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and dependency directions are not checked"; fi

# Benchmarks: `make bench NAME=sim`. Speeds are ratios within one run. ARGS are passed on to programs that take options.
define BENCH_LIST
  With Cargo alone:
  sim               the simulator: events a second and memory, with a million requests through five modules
  reserve           reservations: probing pools of 100 devices, and a dispatch on a cluster of 100
  route             a router's decision over 512 instances, and 10,000 requests a second over them
  queues            virtual queues with 400,000 requests: an arrival, and a plan of all groups
  memory            cost of devices with memory and of virtual queues where everything is in memory
  fleet             a fleet of 100 engines and 5,000 streams in virtual time, with engines that fail
  cascades          cascades beside graphs without one that do the same work, and a decision on the gear
  generating        tokens a second of a model that generates, beside a bare loop (asset pack)
  search            search of tracks: milliseconds and memory by their number, and how often the nearest show the same object (asset pack)
  counts            counts, dwell times and speeds on ten minutes of a street, from its true boxes

  The engine, live:
  overhead          the engine against the bare limit of the machine, and single decisions (asset pack)
  cameras           detection on 4 to 64 cameras, then traffic monitoring on 16 (ten minutes)
  rivals            PARD, weir and the systems of PARD's paper, live, on emulated devices and on the processor (half an hour)
  per-track         traffic monitoring on 16 cameras, read in every frame and per track (four minutes)
  gears             plates read by gears, by large and by small models, while the load rises and falls
  accept            earlier answers where the next stage of a cascade would be late (asset pack)
  reports           reports in words at half of the machine's capacity, and at all of it (four minutes)
  accuracy          accuracy under twice the load that the machine sustains; APP as for the demo
  stillness         work that a motion gate saves, and objects that it misses (asset pack)
  shared            detection beside endless loops of equal priority; GRAPH=traffic for three models
  box               the three demos with memory for five of their thirteen nets (twenty minutes)
  openings          opening times of nets, cold and warm, beside their run times
  routing           routing over three workers of different speeds, one of them killed (nine minutes, asset pack)
  partitioned       traffic monitoring over three worker processes, one of them killed and started again
  heads             exports of detectors by three frameworks against their own post-processing (an hour, 8 GB, asset pack)
  tiles             tiles on a 4K clip with small objects, and as gears under load, beside SAHI's own package (half an hour)
  links             partitions over links that lose, delay and break (five minutes, root)
  fleet-live        three engines that come and go with 24 emulated cameras (CHURN_S, half an hour)
  idle-connections  goodput under overload with a thousand idle connections to the API (three minutes)
  watchers          goodput under overload with fifty watchers of the page, its first paint and bytes (three minutes)
  pictures          goodput under overload with a hundred clients of single pictures (asset pack)
  describe          goodput under overload with a describe sink whose server answers slowly or never (eight minutes)
  python            goodput beside an operator in Python and beside its twin in Rust, and with its process killed (six minutes)
endef

REPRODUCTION = @$(CARGO) run --release --locked -p weir-reproduction --bin
bench-sim = $(REPRODUCTION) bench-sim
bench-reserve = $(REPRODUCTION) bench-reserve
bench-route = $(REPRODUCTION) bench-route
bench-queues = $(REPRODUCTION) bench-queues
bench-memory = $(REPRODUCTION) bench-memory
bench-fleet = $(REPRODUCTION) bench-fleet
bench-cascades = @$(CARGO) run --release --locked -p weir-benches --bin cascades
bench-generating = @$(CARGO) run --release --locked -p weir-benches --bin generating
bench-search = @$(CARGO) run --release --locked -p weir-benches --bin search -- $(ARGS)
# True boxes do not depend on the light: events=FILE takes those that a detector found in rendered clips at night and in rain
# (docs/explain/counting.md).
bench-counts = @$(CARGO) run --release --locked -p weir-videos --no-default-features --example street_counts
bench-overhead = @scripts/bench-overhead.sh
# Decoded as needed and whole, in turn. WEIR_PYTHON, a Python with benches/reference/requirements.txt, adds a plain loop that keeps the
# latest frame.
define bench-cameras
	@scripts/bench-cameras.sh
	@scripts/bench-cameras.sh --graph traffic --clips original --cameras 16
endef
bench-rivals = @scripts/bench-rivals.py $(WEIR_ASSETS) $(ARGS)
bench-per-track = @scripts/bench-per-track.py
bench-gears = @scripts/bench-gears.py
bench-accept = @scripts/bench-accept.py $(or $(WEIR_ASSETS),../shared/assets) $(ARGS)
bench-reports = @scripts/bench-reports.py
bench-accuracy = @scripts/bench-accuracy.sh $(APP)
bench-stillness = @scripts/bench-stillness.sh $(ARGS)
bench-shared = @scripts/bench-shared-machine.sh
# Cameras and archive jobs, by each rule of `[policy] queues`, with and without warm start.
bench-box = @scripts/bench-box.py $(ARGS)
bench-openings = @scripts/bench-openings.py $(or $(WEIR_ASSETS),../shared/assets)
bench-routing = @scripts/bench-routing.sh
bench-partitioned = @scripts/bench-partitioned.sh $(ARGS)
bench-links = @scripts/bench-links.py $(ARGS)
bench-fleet-live = @python3 benches/soak/fleet.py "$(or $(WEIR),$(or $(CARGO_TARGET_DIR),target)/release/weir)" out/fleet
bench-heads = @scripts/bench-heads.sh $(ARGS)
bench-tiles = @scripts/bench-tiles.sh $(ARGS)
bench-idle-connections = @scripts/bench-idle-connections.sh
bench-watchers = @scripts/bench-watchers.sh
bench-describe = @scripts/bench-describe.py $(ARGS)
bench-python = @scripts/bench-python.py $(ARGS)
bench-pictures = @scripts/bench-pictures.py $(or $(WEIR_ASSETS),../shared/assets) $(ARGS)

BENCHES_AFTER_SETUP := overhead partitioned
BENCHES_AFTER_BUILD := cameras rivals per-track gears accept heads tiles reports accuracy stillness shared box openings routing links fleet-live \
	idle-connections watchers pictures describe python
ifneq ($(filter $(NAME),links fleet-live),)
bench: WEIR_FLEET := 1
endif
bench: $(if $(filter $(NAME),$(BENCHES_AFTER_SETUP)),setup) $(if $(filter $(NAME),$(BENCHES_AFTER_BUILD)),build)
	$(or $(bench-$(NAME)),$(call list,BENCH_LIST))

# A published evaluation, run again in the simulator: `make reproduce NAME=pard` writes docs/reproduction/pard. Needs cargo alone.
define REPRODUCE_LIST
  pard       on recorded traces of the asset pack, else on generated ones
  ppipe      on published block latencies of the asset pack, else on synthetic profiles
  ken        on published profiles of the asset pack
  goodserve  on published step times of the asset pack
  qlm        on recorded token lengths and published step times of the asset pack
endef
reproduce:
	$(if $(filter pard ppipe ken goodserve qlm,$(NAME)),@scripts/reproduce.sh $(NAME),$(call list,REPRODUCE_LIST))

# The live engine against the simulator, on the same graphs, arrivals and emulated devices: six minutes of live runs.
compare-live: setup
	@scripts/compare-live.sh --seconds $(SECONDS_EACH)

# The service at twice what the machine sustains, while streams come and go, cameras fail, a reader stalls and a model loses
# batches; afterwards the books. SOAK_SECONDS is its length, 1800 where it is not given.
soak: build
	@scripts/soak.sh

# The site of twelve cameras (config/site.toml) while cameras, the broker and the disk fail and clocks are set; then every incident is compared with
# what the cameras showed. SOAK_SECONDS is its length, 1200 where it is not given. Needs mosquitto.
soak-site: build
	@python3 benches/soak/site.py "$(or $(WEIR),$(or $(CARGO_TARGET_DIR),target)/release/weir)" out/soak-site

# The engine is killed 100 times while it works on six jobs, and 100 times more with the last bytes of its store cut off each time;
# results must be those of an undisturbed run.
crash-jobs:
	WEIR_KILLS=100 WEIR_KILL_JOBS=6 $(CARGO) test --workspace --locked --test cli -- --nocapture archive_jobs::crashes::a_killed

# The same for six jobs of a queue on a server, over three engines: they and the server are killed at random, 50 times.
crash-jobs-fleet: setup
	WEIR_KILLS=50 WEIR_KILL_JOBS=6 $(CARGO) test --workspace --features weir/nats --locked --test cli -- --nocapture \
		archive_fleet::killed archive_fleet::two_engines

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

# Pictures of the page in several states, wide and narrow, light and dark, into out/page, to be looked at.
page-pictures: setup
	$(CARGO) test --locked -p weir --test cli -- page_pictures:: --ignored --nocapture --test-threads 1

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
