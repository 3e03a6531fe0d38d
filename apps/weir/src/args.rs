//! The command line's shape: commands, arguments, and how their texts are read.

mod detect;
mod fleet;
mod glossary;
mod jobs;
mod models;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use weir_policy::Order;
use weir_types::Span;

use crate::error::UserError;
use crate::version;
pub(crate) use detect::Detect;
pub(crate) use fleet::{Fleet, FleetArgs, FleetKeys, FleetPlace, FleetStatus};
pub(crate) use jobs::{Jobs, Submit};
pub(crate) use models::{Inspect, Models};
use values::{Bandwidth, Device, device, drop_rule, duration, factor, hops, listen, order};
pub(crate) use values::{HopNames, Pick, Speed, TruthOf};

/// Video analytics under a latency promise.
#[derive(Debug, Parser)]
#[command(name = "weir", version = version::SHORT, long_version = version::LONG, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Settings file; weir.toml of the current folder where it exists
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at a clip or a camera, and write a graph for it with remarks, to go on from
    Init(Init),
    /// Run a graph on its sources until they end or Ctrl-C
    #[command(after_long_help = glossary::TABLE)]
    Run(Run),
    /// Run a graph until it is asked to end, with an API over HTTP: streams come and go meanwhile
    #[command(after_long_help = glossary::TABLE)]
    Serve(Serve),
    /// List, add, change, remove, pause and resume the streams of an engine that serves
    Streams(Streams),
    /// Show the streams and modules of an engine that serves, again every second
    Top(Top),
    /// Make certificates for the engines of a fleet, and show a fleet
    #[command(subcommand)]
    Fleet(Fleet),
    /// Submit recorded videos as a job to a queue that survives crashes; queued sources of a graph take them
    Submit(Submit),
    /// List the jobs of a queue, or cancel one
    Jobs(Jobs),
    /// Replay recorded videos through a graph, each as a camera
    #[command(after_long_help = glossary::TABLE)]
    Replay(Replay),
    /// Print the objects of single pictures as JSON, by the models of a graph
    Detect(Detect),
    /// Hold what a graph delivers against what is true of its clip
    #[command(after_long_help = glossary::TABLE)]
    Score(Score),
    /// Report every problem of a graph and of what it names, or that it can be run
    Check(Check),
    /// Draw a graph
    Graph(Draw),
    /// Measure how long models take by batch size
    Profile(Profile),
    /// Sample the models of cascades, judge every certainty by the samples, and plan gears
    #[command(subcommand)]
    Gears(Gears),
    /// Plan which blocks of which models run on which pools of devices
    Plan(Plan),
    /// Run policies over traces in virtual time
    Simulate(Simulate),
    /// The models that ship, and the public ones that Weir knows by name
    #[command(subcommand)]
    Models(Models),
    /// Print the operators, heads and sinks that graphs may name, with their keys
    Operators,
    /// Print a JSON schema of graphs, by which editors complete and check them
    Schema,
    /// Write a frame of a clip with a grid, to take points of zones and lines from
    Zones(Zones),
    /// Replay the event log of a run through the policy, which must decide the same
    Verify(Verify),
    /// Hold partitions of models and run the batches that an engine sends through them
    Worker(Worker),
    /// Say what this machine has and what is missing
    Doctor,
    /// Check models and the engine on a GPU, beside the CPU and the limit of the device
    GpuCheck(GpuCheck),
    /// Print what a shell reads to complete the command line
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
}

/// `weir init`.
#[derive(Debug, Group)]
pub(crate) struct Init {
    /// A clip, a folder of images, a device or a camera's address; without it streams are added while `weir serve` runs
    #[arg(value_name = "SOURCE")]
    pub(crate) source: Option<String>,
    /// A detector of your own, as an ONNX file; its head and the names of its classes are found by the file
    #[arg(long, value_name = "FILE.onnx")]
    pub(crate) model: Option<PathBuf>,
    /// The graph to write, which must not be there yet; - for standard output
    #[arg(long, value_name = "GRAPH.toml", default_value = "graph.toml")]
    pub(crate) out: PathBuf,
    /// The folder that the graph's sinks write to; default the folder of the graph
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// How long the source is waited for
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "15s")]
    pub(crate) timeout: Span,
}

/// When a run ends, and the files that it leaves beside those of sinks.
#[derive(Debug, Clone, Default, PartialEq, Group)]
pub(crate) struct RunArgs {
    /// Stop after this time, such as 60s or 5m
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    pub(crate) duration: Option<Span>,
    /// Write the report to this file as JSON instead of printing a table
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the event log of the run, which can be replayed through the policy
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// End the run where the engine breaks an invariant of its own, with exit code 1
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// `weir run`.
#[derive(Debug, Group)]
pub(crate) struct Run {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
}

/// `weir serve`.
#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
    /// Where the API is reached, by address or name; port 0 for any, which is then printed
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) listen: String,
    /// File with the token that clients must show, which its owner alone can read; or WEIR_API_TOKEN. Required where other
    /// machines reach the address
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let clients of the API name any source: files outside of the folder of the graph, devices, any address of FFmpeg
    #[arg(long)]
    pub(crate) allow_any_source: bool,
    /// Take what changes in the file of the graph, which is so unless --no-watch is given
    #[arg(long, conflicts_with = "no_watch")]
    pub(crate) watch: bool,
    /// Do not watch the file of the graph: what changes in it is taken on SIGHUP only
    #[arg(long)]
    pub(crate) no_watch: bool,
}

/// Where the API is reached unless something else is said.
const DEFAULT_API: &str = "127.0.0.1:7400";

/// `weir streams`.
#[derive(Debug, Group)]
pub(crate) struct Streams {
    #[command(subcommand)]
    pub(crate) action: StreamAction,
    /// Where the engine serves
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the token of the engine; or WEIR_API_TOKEN
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `weir top`.
#[derive(Debug, Group)]
pub(crate) struct Top {
    /// Where the engine serves
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the token of the engine; or WEIR_API_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Once, with rates over one second
    #[arg(long)]
    pub(crate) once: bool,
}

/// What is done to streams.
#[derive(Debug, Subcommand)]
pub(crate) enum StreamAction {
    /// Print the streams with their states
    List,
    /// Add a stream
    Add(AddStream),
    /// Remove a stream: what is in flight comes out
    Remove {
        /// Its name
        name: String,
    },
    /// Pause a stream: its source is closed
    Pause {
        /// Its name
        name: String,
    },
    /// Resume a stream that is paused
    Resume {
        /// Its name
        name: String,
    },
    /// Change what a stream is to have: its weight, its reserve, its latency objective
    Set(SetStream),
}

/// What is changed about a stream.
#[derive(Debug, Group)]
#[group(required = true, multiple = true)]
pub(crate) struct StreamShareArgs {
    /// Its weight under overload
    #[arg(long)]
    pub(crate) weight: Option<f64>,
    /// Frames a second that are reserved for it under overload, or none
    #[arg(long)]
    pub(crate) reserve: Option<String>,
    /// Its latency objective, such as 150ms, or none for that of the graph
    #[arg(long)]
    pub(crate) slo: Option<String>,
}

/// A stream, and what is changed about it.
#[derive(Debug, Group)]
pub(crate) struct SetStream {
    /// Its name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) share: StreamShareArgs,
}

/// A stream to add.
#[derive(Debug, Group)]
pub(crate) struct AddStream {
    /// Its name
    pub(crate) name: String,
    /// A camera's URL, a file in the folder of the graph, or emulated:...
    pub(crate) uri: String,
    /// A smaller stream of the same pictures: frames come from it
    #[arg(long, value_name = "URI")]
    pub(crate) detect_uri: Option<String>,
    /// What happens to its frames under overload: live, or lossless
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Frames a second of a source that does not carry its rate
    #[arg(long)]
    pub(crate) fps: Option<f64>,
    /// Frames a second that are taken
    #[arg(long)]
    pub(crate) sample: Option<f64>,
    /// Begin a recording again at its end
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
    /// How much of it is decoded under overload: all, or as-needed
    #[arg(long)]
    pub(crate) decode: Option<String>,
    /// Whether frames in which nothing changes are passed over: motion, or none
    #[arg(long)]
    pub(crate) gate: Option<String>,
    /// Its own latency objective, such as 150ms
    #[arg(long)]
    pub(crate) slo: Option<String>,
    /// Its weight under overload
    #[arg(long)]
    pub(crate) weight: Option<f64>,
    /// Frames a second that are reserved for it under overload
    #[arg(long)]
    pub(crate) reserve: Option<f64>,
    /// The source of the graph whose inputs it shares; all that take any source by default
    #[arg(long, value_name = "SOURCE")]
    pub(crate) like: Option<String>,
}

/// How videos are played through a graph.
#[derive(Debug, Group)]
pub(crate) struct Playback {
    /// Videos that take the place of the graph's sources
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// How many streams; videos are used again in turn where there are fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) streams: Option<u32>,
    /// Begin all streams of a video at its start; else the copies of a video join it at places of their own, as cameras are joined
    #[arg(long)]
    pub(crate) in_phase: bool,
    /// 1 for their own pace, another factor, or max for as fast as it goes
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    pub(crate) speed: Speed,
    /// Start each video again at its end
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
    /// Put the files of all sinks into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
    /// Drop rule instead of the graph's: none, pard, weir, clipper++, nexus, newest, back, sf, oc, split, wcl, lower, upper
    #[arg(long, value_name = "RULE", value_parser = drop_rule)]
    pub(crate) drop: Option<weir_policy::DropRule>,
    /// Order instead of the graph's: adaptive, fcfs, hbf, lbf, instant
    #[arg(long, value_name = "ORDER", value_parser = order)]
    pub(crate) order: Option<Order>,
}

/// `weir replay`.
#[derive(Debug, Group)]
pub(crate) struct Replay {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) playback: Playback,
    /// Write every input tensor into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_inputs: Option<PathBuf>,
    /// Write those of this model alone
    #[arg(long, value_name = "MODEL", requires = "dump_inputs")]
    pub(crate) dump_model: Option<String>,
}

/// `weir score`.
#[derive(Debug, Group)]
pub(crate) struct Score {
    /// The graph; needless with --events
    #[arg(value_name = "GRAPH.toml", required_unless_present = "events")]
    pub(crate) graph: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) playback: Playback,
    /// What is true of the clip, for all streams or for the one that is named
    #[arg(long, value_name = "[STREAM=]FILE", required = true)]
    pub(crate) truth: Vec<TruthOf>,
    /// Run nothing, and score the event lines of this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["videos", "streams", "speed", "out", "duration", "record",
        "strict", "drop", "order"])]
    pub(crate) events: Option<PathBuf>,
    /// Draw precision and recall of each class over the score into this file, and print the best thresholds
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) curve: Option<PathBuf>,
}

/// `weir check`.
#[derive(Debug, Group)]
pub(crate) struct Check {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Videos that take the place of the graph's sources, as for `weir replay`
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// Look at the text of the graph alone, and open nothing that it names
    #[arg(long)]
    pub(crate) quick: bool,
}

/// `weir graph`.
#[derive(Debug, Group)]
pub(crate) struct Draw {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// As what
    #[arg(long, value_enum, default_value = "mermaid")]
    pub(crate) format: Format,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Mermaid, as pages on GitHub show it
    Mermaid,
    /// Graphviz
    Dot,
}

/// `weir zones`.
#[derive(Debug, Group)]
pub(crate) struct Zones {
    /// The clip, or a camera's address; or a graph, of whose stream the zones, lines and masks are drawn, too
    #[arg(value_name = "CLIP|GRAPH.toml")]
    pub(crate) clip: String,
    /// The stream of the graph; needless if there is one only
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// Which frame: the first that is not before this time, such as 10s; else the first
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) at: Option<Span>,
    /// The picture to write; CLIP.zones.png or NAME.zones.png in this folder by default
    #[arg(long, value_name = "FILE.png")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir gpu-check`.
#[derive(Debug, Group)]
pub(crate) struct GpuCheck {
    /// Folder for gpu-check.json and gpu-check.md
    #[arg(long, value_name = "DIR", default_value = "out/gpu-check")]
    pub(crate) out: PathBuf,
    /// What is checked: cuda:0, or cpu to try the check itself
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0", value_parser = device)]
    pub(crate) device: weir_flow::DeviceKind,
    /// Models, such as embedded:street-detector,zoo:yolox-nano; all that ship and all of the zoo that are here
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// The largest batch that is measured
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_batch: u32,
    /// A clip that stands for every camera; without it no cameras are tried
    #[arg(long, value_name = "VIDEO")]
    pub(crate) clip: Option<PathBuf>,
    /// The most cameras that are tried
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) cameras: u32,
    /// Length of each run in seconds
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

/// `weir profile`.
#[derive(Debug, Group)]
pub(crate) struct Profile {
    /// A graph, all of whose models are measured, or one model: a file, or embedded:NAME
    #[arg(value_name = "GRAPH.toml|MODEL.onnx|embedded:NAME")]
    pub(crate) target: PathBuf,
    /// Batch sizes; those of the graph, else 1,2,4,8
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) batches: Vec<u32>,
    /// Write what `profile` of a model reads: to this file for one model, to MODEL.toml in this folder for a graph
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How the file of one model is fed and read, such as yolox; known for files of the zoo
    #[arg(long, value_name = "HEAD")]
    pub(crate) head: Option<String>,
    /// Cut one model into so many blocks and measure each: a profile for `weir plan`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) blocks: Option<u32>,
    #[command(flatten)]
    pub(crate) blocked: BlockedProfile,
}

/// `weir profile --blocks`.
#[derive(Debug, Group)]
pub(crate) struct BlockedProfile {
    /// Name of the class that the device stands for
    #[arg(long, value_name = "NAME", default_value = "cpu", requires = "blocks")]
    pub(crate) class: String,
    /// Where to measure: cpu, or cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device, requires = "blocks")]
    pub(crate) device: weir_flow::DeviceKind,
    /// Threads of a share of a CPU
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024),
        requires = "blocks")]
    pub(crate) threads: u32,
    /// Into how many shares the device is split, of which one is measured
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=16),
        requires = "blocks")]
    pub(crate) shares: u32,
    /// Declare a class that takes so many times as long as what is measured here
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor, requires = "blocks")]
    pub(crate) slower: f64,
    /// Send feature maps in full precision instead of half
    #[arg(long, requires = "blocks")]
    pub(crate) full_precision: bool,
    /// How large the sides of the input are, where the model leaves them free and has no head
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u32).range(1..=8192), requires = "blocks")]
    pub(crate) side: Option<u32>,
    /// Write every layer with its time and the bytes after it to this file, as CSV
    #[arg(long, value_name = "FILE", requires = "blocks")]
    pub(crate) layers: Option<PathBuf>,
}

/// `weir plan`.
#[derive(Debug, Group)]
pub(crate) struct Plan {
    /// The planning problem
    #[arg(value_name = "PROBLEM.toml")]
    pub(crate) problem: PathBuf,
    /// Say why the plan is as it is, and what would make it better
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write the plan to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir simulate`.
#[derive(Debug, Group)]
pub(crate) struct Simulate {
    /// The experiment
    #[arg(value_name = "EXPERIMENT.toml")]
    pub(crate) experiment: PathBuf,
    /// Run this seed alone instead of those of the experiment
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write the reports of all runs to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Runs at a time; one a core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
}

/// `weir verify`.
#[derive(Debug, Group)]
pub(crate) struct Verify {
    /// An event log, as `--record` writes it
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
}

/// `weir worker`.
#[derive(Debug, Group)]
pub(crate) struct Worker {
    /// Where processes of this machine reach it, by address or name; port 0 for any, which is then printed
    #[arg(long, value_name = "HOST:PORT", value_parser = listen, required_unless_present = "fleet")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Where features may be sent on to, or none; this machine alone by default
    #[arg(long, value_name = "HOST[:PORT],...", value_parser = hops, conflicts_with = "fleet")]
    pub(crate) hops: Option<HopNames>,
    /// Its device class, as plans name it
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub(crate) class: String,
    /// Batches that it runs side by side
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) shares: u32,
    /// Where partitions run: cpu, or cuda:0
    #[arg(long, default_value = "cpu")]
    pub(crate) device: Device,
    /// Keep to this core, numbered from 0
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Stand for a device that is so many times slower
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub(crate) slowdown: f64,
    /// Stand for a server whose uplink carries so much, such as 1Gbps or 200Mbps
    #[arg(long, value_name = "BANDWIDTH")]
    pub(crate) bandwidth: Option<Bandwidth>,
}

/// `weir completions`.
#[derive(Debug, Group)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `weir man`.
#[derive(Debug, Group)]
pub(crate) struct Man {
    /// Write weir.1 and a page for each command into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir gears`.
#[derive(Debug, Subcommand)]
pub(crate) enum Gears {
    /// Let every stage of every cascade answer every item, and write how right and how certain each is
    Sample(GearsSample),
    /// Print what a cascade would be at every certainty: accuracy over work, and the points that no other beats
    Curve(GearsCurve),
    /// Plan which stages are asked and how certain they must be, by load
    Plan(GearsPlan),
}

/// `weir gears sample`.
#[derive(Debug, Group)]
pub(crate) struct GearsSample {
    /// The graph
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Videos that take the place of the graph's sources
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// What is true of the clip, for all streams or for the one that is named; `names`: of a folder of images, each is called
    /// after its text or class, up to a `_`
    #[arg(long, value_name = "[STREAM=]FILE", required = true)]
    pub(crate) truth: Vec<TruthOf>,
    /// Write the samples to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Stop after this time, such as 60s or 5m
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    pub(crate) duration: Option<Span>,
}

/// `weir gears curve`.
#[derive(Debug, Group)]
pub(crate) struct GearsCurve {
    /// The samples
    #[arg(value_name = "SAMPLES.jsonl")]
    pub(crate) samples: PathBuf,
    /// Which cascade; needless where there is one
    #[arg(long, value_name = "NAME")]
    pub(crate) cascade: Option<String>,
    /// Whose answer counts: last or surest
    #[arg(long, value_name = "WORD", default_value = "last", value_parser = ["last", "surest"])]
    pub(crate) settle: String,
    /// Print all points, not only those that no other beats
    #[arg(long)]
    pub(crate) all: bool,
    /// Draw the curve into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir gears plan`.
#[derive(Debug, Group)]
pub(crate) struct GearsPlan {
    /// The problem
    #[arg(value_name = "PROBLEM.toml")]
    pub(crate) problem: PathBuf,
    /// Print the placement and the gears of the plan that is picked
    #[arg(long)]
    pub(crate) explain: bool,
    /// Which plan: the fastest with an accuracy, such as "accuracy >= 0.95", or the most accurate with a latency, such as
    /// "latency <= 80ms", or a drop rate, such as "latency <= 0.01" [default: the most accurate within the graph's slo]
    #[arg(long, value_name = "CONDITION")]
    pub(crate) pick: Option<Pick>,
    /// Write the plan to this file as gears
    #[arg(long, value_name = "GEARS.toml")]
    pub(crate) out: Option<PathBuf>,
}

/// Shows help, the version, or what is wrong with a command line; gives the exit code that goes with it.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if name == "render" => weir_terminal::finish(
            Err(UserError::new(RENDER_MOVED).into()),
            weir_terminal::is_mendable,
        ),
        _ => weir_terminal::refuse(error),
    }
}

/// Rendering was a command of this program, and old command lines and notes still say so.
const RENDER_MOVED: &str = "rendering is a program of its own now; in the repository of Weir: \
    cargo run --release -p weir-videos --bin render -- --help";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_holds_together() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
