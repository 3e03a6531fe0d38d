//! The command line's shape: commands, arguments, and how their texts are read.

mod detect;
mod discover;
mod export;
mod fleet;
mod glossary;
mod import;
mod init;
mod jobs;
mod models;
mod python;
mod search;
mod serve;
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
pub(crate) use discover::Discover;
pub(crate) use export::Export;
pub(crate) use fleet::{Fleet, FleetArgs, FleetKeys, FleetPlace, FleetStatus};
pub(crate) use import::{Import, ImportFrigate};
pub(crate) use init::Init;
pub(crate) use jobs::{Jobs, Submit};
pub(crate) use models::{Inspect, Models};
use python::PythonArgs;
pub(crate) use search::Search;
pub(crate) use serve::Serve;
use values::{Bandwidth, Device, device, drop_rule, duration, factor, hops, listen, order};
pub(crate) use values::{HopNames, Pick, Speed, TruthOf};

/// Video analytics under a latency promise.
#[derive(Debug, Parser)]
#[command(name = "weir", version = version::SHORT, long_version = version::LONG, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Settings file [default: weir.toml of the current folder, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Format of the log on standard error
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Formats of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for each event
    #[default]
    Text,
    /// An object of JSON on a line for each event
    Json,
}

impl From<LogFormat> for weir_terminal::LogFormat {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

/// Commands of the program. The comment of each is its help text.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at a clip or a camera and write a commented graph for it, as a starting point
    Init(Init),
    /// Write a graph from the configuration of another program
    #[command(subcommand)]
    Import(Import),
    /// Find the cameras of a network, and the addresses of their streams
    Discover(Discover),
    /// Run a graph until its sources end or Ctrl-C is pressed
    #[command(after_long_help = glossary::TABLE)]
    Run(Run),
    /// Run a graph until it is stopped, with an HTTP API: streams can be added and removed while it runs
    #[command(after_long_help = glossary::TABLE)]
    Serve(Serve),
    /// List, add, change, remove, pause and resume the streams of a running `weir serve`
    Streams(Streams),
    /// Show the streams and modules of a running `weir serve`, refreshed every second
    Top(Top),
    /// Create certificates for the engines of a fleet, or show the state of a fleet
    #[command(subcommand)]
    Fleet(Fleet),
    /// Submit recorded videos as a job to a queue that survives crashes, for a queued source of a graph
    Submit(Submit),
    /// List the jobs of a queue, or cancel one
    Jobs(Jobs),
    /// Replay recorded videos through a graph, each as if it were a camera
    #[command(after_long_help = glossary::TABLE)]
    Replay(Replay),
    /// Run a graph's models on single images and print the detected objects as JSON
    Detect(Detect),
    /// Evaluate the results of a graph against the ground truth of its clip
    #[command(after_long_help = glossary::TABLE)]
    Score(Score),
    /// Check a graph and the files it names, and report every problem at once
    Check(Check),
    /// Draw a graph
    Graph(Draw),
    /// Measure the run time of models by batch size
    Profile(Profile),
    /// Sample the models of cascades, evaluate every certainty threshold on the samples, and plan gears
    #[command(subcommand)]
    Gears(Gears),
    /// Plan a placement: which blocks of which models run on which pools of devices
    Plan(Plan),
    /// Simulate policies on traces in virtual time
    Simulate(Simulate),
    /// List, inspect or fetch models: those that ship with Weir and the public ones in its zoo
    #[command(subcommand)]
    Models(Models),
    /// Print the keys of each section of the graph file, with values, defaults and meaning
    Keys,
    /// Print the operators, heads and sinks that graphs may name, with their keys
    Operators,
    /// Print the JSON schema of graphs, for completion and checks in editors
    Schema,
    /// Print the description of the API of `weir serve`, in OpenAPI 3.0
    Openapi,
    /// Write a frame of a clip with a coordinate grid, to read off points for zones and lines
    Zones(Zones),
    /// Write a range of a recorded archive as one MP4, without encoding it again
    Export(Export),
    /// Find tracks that a graph stored: by words, by what they look like, and by a track or picture that they resemble
    Search(Search),
    /// Replay the event log of a run through the policy and check that it makes the same decisions
    Verify(Verify),
    /// Load partitions of models and run the batches that an engine sends
    Worker(Worker),
    /// Report what is installed on this machine and what is missing
    Doctor,
    /// Compare models on a GPU with the CPU, and the throughput of the engine with the limit of the device
    GpuCheck(GpuCheck),
    /// Print the completion script of a shell
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands
    Man(Man),
}

/// Options of a run: its duration, and the files that it writes besides those of its sinks.
#[derive(Debug, Clone, Default, PartialEq, Group)]
pub(crate) struct RunArgs {
    /// Stop after this time, such as 60s or 5m
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    pub(crate) duration: Option<Span>,
    /// Write the report as JSON to this file (- for standard output) instead of printing a table
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the event log of the run to this file, for `weir verify`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Stop the run with exit code 1 if the engine breaks one of its own invariants
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// `weir run`.
#[derive(Debug, Group)]
pub(crate) struct Run {
    /// Graph to run
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
}

/// Default address of the API: this machine only.
const DEFAULT_API: &str = "127.0.0.1:7400";

/// `weir streams`.
#[derive(Debug, Group)]
pub(crate) struct Streams {
    #[command(subcommand)]
    pub(crate) action: StreamAction,
    /// API address of the engine
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the API token of the engine; or set WEIR_API_TOKEN
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `weir top`.
#[derive(Debug, Group)]
pub(crate) struct Top {
    /// API address of the engine
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) at: String,
    /// File with the API token of the engine; or set WEIR_API_TOKEN
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print one screen, with rates over one second, and exit
    #[arg(long)]
    pub(crate) once: bool,
}

/// Actions of `weir streams`, one per HTTP request of the API.
#[derive(Debug, Subcommand)]
pub(crate) enum StreamAction {
    /// List the streams and their states
    List,
    /// Add a stream
    Add(AddStream),
    /// Remove a stream; its frames in flight are finished first
    Remove {
        /// Name of the stream
        name: String,
    },
    /// Pause a stream and close its source
    Pause {
        /// Name of the stream
        name: String,
    },
    /// Resume a paused stream
    Resume {
        /// Name of the stream
        name: String,
    },
    /// Change the weight, the reserve or the latency objective of a stream
    Set(SetStream),
}

/// Options of `weir streams set`, of which at least one must be given.
#[derive(Debug, Group)]
#[group(required = true, multiple = true)]
pub(crate) struct StreamShareArgs {
    /// Weight of the stream under overload, 0.001 to 1000
    #[arg(long)]
    pub(crate) weight: Option<f64>,
    /// Frames per second that are reserved for the stream under overload, or none
    #[arg(long)]
    pub(crate) reserve: Option<String>,
    /// Latency objective of the stream, such as 150ms, or none for that of the graph
    #[arg(long)]
    pub(crate) slo: Option<String>,
}

/// Arguments of `weir streams set`.
#[derive(Debug, Group)]
pub(crate) struct SetStream {
    /// Name of the stream
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) share: StreamShareArgs,
}

/// Arguments of `weir streams add`.
#[derive(Debug, Group)]
pub(crate) struct AddStream {
    /// Name of the new stream
    pub(crate) name: String,
    /// A camera's URL, a file in the folder of the graph, or emulated:...
    pub(crate) uri: String,
    /// Address of a smaller stream of the same camera, whose frames the models get
    #[arg(long, value_name = "URI")]
    pub(crate) detect_uri: Option<String>,
    /// Overload handling: live drops late frames, lossless holds the source back [default: as in graphs]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Frame rate in frames per second, for sources that do not state one
    #[arg(long)]
    pub(crate) fps: Option<f64>,
    /// Frames per second that are processed; the others are left out [default: all]
    #[arg(long)]
    pub(crate) sample: Option<f64>,
    /// Start a recording again at its end
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
    /// Decoding under overload: as-needed leaves out frames that cannot be used, all decodes every frame
    #[arg(long)]
    pub(crate) decode: Option<String>,
    /// Skip frames in which nothing changes: motion, or none [default: none]
    #[arg(long)]
    pub(crate) gate: Option<String>,
    /// Latency objective of the stream, such as 150ms [default: that of the graph]
    #[arg(long)]
    pub(crate) slo: Option<String>,
    /// Weight of the stream under overload, 0.001 to 1000 [default: 1]
    #[arg(long)]
    pub(crate) weight: Option<f64>,
    /// Frames per second that are reserved for the stream under overload [default: none]
    #[arg(long)]
    pub(crate) reserve: Option<f64>,
    /// Group of cameras that the stream belongs to [default: none]
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Source of the graph whose modules the stream feeds [default: all modules that take any source]
    #[arg(long, value_name = "SOURCE")]
    pub(crate) like: Option<String>,
}

/// Playback of videos through a graph, shared by `weir replay` and `weir score`.
#[derive(Debug, Group)]
pub(crate) struct Playback {
    /// Videos to play instead of the graph's sources
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// Number of streams; if there are fewer videos, they are reused in turn [default: one per video]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) streams: Option<u32>,
    /// Start every stream at the beginning of its video; without it, copies of a video start at different
    /// positions, like cameras that are joined at any time
    #[arg(long)]
    pub(crate) in_phase: bool,
    /// Playback speed: a factor from 0.01 to 1000, or max for as fast as possible
    #[arg(long, default_value = "1", allow_negative_numbers = true)]
    pub(crate) speed: Speed,
    /// Start each video again at its end
    #[arg(long = "loop")]
    pub(crate) repeat: bool,
    /// Write the files of all sinks into this folder
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
    /// Graph to run
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) playback: Playback,
    /// Write every input tensor of the models into this folder, as .npy
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_inputs: Option<PathBuf>,
    /// Write only the input tensors of this model
    #[arg(long, value_name = "MODEL", requires = "dump_inputs")]
    pub(crate) dump_model: Option<String>,
}

/// `weir score`.
#[derive(Debug, Group)]
pub(crate) struct Score {
    /// Graph to run; not needed with --events
    #[arg(value_name = "GRAPH.toml", required_unless_present = "events")]
    pub(crate) graph: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) playback: Playback,
    /// Ground truth of the clip, for all streams or for the named one; or annotations of COCO (.json)
    #[arg(long, value_name = "[STREAM=]FILE", required = true)]
    pub(crate) truth: Vec<TruthOf>,
    /// Run nothing; evaluate the event lines of this file, or the results of a `coco` sink, instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["videos", "streams", "speed", "out", "duration", "record",
        "strict", "drop", "order"])]
    pub(crate) events: Option<PathBuf>,
    /// Draw precision and recall of each class over the score threshold, and print the best thresholds
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) curve: Option<PathBuf>,
}

/// `weir check`.
#[derive(Debug, Group)]
pub(crate) struct Check {
    /// Graph to check
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Videos to check instead of the graph's sources, as for `weir replay`
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// Check the text of the graph only; open none of the files, models and sources that it names
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}

/// `weir graph`.
#[derive(Debug, Group)]
pub(crate) struct Draw {
    /// Graph to draw
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value = "mermaid")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}

/// Output format of `weir graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Mermaid, which GitHub renders in Markdown
    Mermaid,
    /// Graphviz, for the program dot
    Dot,
}

/// `weir zones`.
#[derive(Debug, Group)]
pub(crate) struct Zones {
    /// A clip, a camera's address, or a graph; of a graph's stream, its zones, lines and masks are drawn too
    #[arg(value_name = "CLIP|GRAPH.toml")]
    pub(crate) clip: String,
    /// Stream of the graph; not needed if the graph has only one
    #[arg(long, value_name = "NAME")]
    pub(crate) stream: Option<String>,
    /// Time from the start of the clip, such as 10s; the first frame at or after it [default: the first
    /// frame]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) at: Option<Span>,
    /// Picture to write [default: CLIP.zones.png or NAME.zones.png in the current folder]
    #[arg(long, value_name = "FILE.png")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}

/// `weir gpu-check`.
#[derive(Debug, Group)]
pub(crate) struct GpuCheck {
    /// Folder for gpu-check.json and gpu-check.md
    #[arg(long, value_name = "DIR", default_value = "out/gpu-check")]
    pub(crate) out: PathBuf,
    /// Device to check: cuda:0, or cpu to try out the check itself
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0", value_parser = device)]
    pub(crate) device: weir_flow::DeviceKind,
    /// Models to check, such as embedded:street-detector,zoo:yolox-nano [default: all that ship, and all of
    /// the zoo on this machine]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) models: Vec<String>,
    /// Largest batch to measure, in items
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_batch: u32,
    /// Clip that every simulated camera plays; without it, the test with cameras is left out
    #[arg(long, value_name = "VIDEO")]
    pub(crate) clip: Option<PathBuf>,
    /// Largest number of cameras to try
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) cameras: u32,
    /// Length of each run, in seconds
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

/// `weir profile`.
#[derive(Debug, Group)]
pub(crate) struct Profile {
    /// A graph, to measure all of its models, or one model: an ONNX file or embedded:NAME
    #[arg(value_name = "GRAPH.toml|MODEL.onnx|embedded:NAME")]
    pub(crate) target: PathBuf,
    /// Batch sizes to measure [default: those of the graph, or 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) batches: Vec<u32>,
    /// Write profiles for the key `profile` of models: one model to this file, the models of a graph to
    /// MODEL.toml in this folder
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Head that prepares inputs and reads outputs, such as yolox [default: that of the zoo for this file]
    #[arg(long, value_name = "HEAD")]
    pub(crate) head: Option<String>,
    /// Cut one model into this many blocks and measure each, for `weir plan`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) blocks: Option<u32>,
    #[command(flatten)]
    pub(crate) blocked: BlockedProfile,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}

/// `weir profile --blocks`.
#[derive(Debug, Group)]
pub(crate) struct BlockedProfile {
    /// Name of the device class that the profile is for
    #[arg(long, value_name = "NAME", default_value = "cpu", requires = "blocks")]
    pub(crate) class: String,
    /// Device to measure on: cpu, or cuda:0
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device, requires = "blocks")]
    pub(crate) device: weir_flow::DeviceKind,
    /// Threads per share of a CPU
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024),
        requires = "blocks")]
    pub(crate) threads: u32,
    /// Number of shares that the device is split into; one of them is measured
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=16),
        requires = "blocks")]
    pub(crate) shares: u32,
    /// Multiply the measured times by this factor, to declare a slower device class
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor, requires = "blocks")]
    pub(crate) slower: f64,
    /// Send feature maps between blocks in full precision (32 bits) instead of half (16 bits)
    #[arg(long, requires = "blocks")]
    pub(crate) full_precision: bool,
    /// Width and height of the input in pixels, for a model with free sides and without a head
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u32).range(1..=8192), requires = "blocks")]
    pub(crate) side: Option<u32>,
    /// Write the time of each layer and the bytes it passes on to this file, as CSV
    #[arg(long, value_name = "FILE", requires = "blocks")]
    pub(crate) layers: Option<PathBuf>,
}

/// `weir plan`.
#[derive(Debug, Group)]
pub(crate) struct Plan {
    /// Planning problem
    #[arg(value_name = "PROBLEM.toml")]
    pub(crate) problem: PathBuf,
    /// Explain the plan: what limits it, and what would improve it
    #[arg(long)]
    pub(crate) explain: bool,
    /// Write the plan to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir simulate`.
#[derive(Debug, Group)]
pub(crate) struct Simulate {
    /// Experiment to run
    #[arg(value_name = "EXPERIMENT.toml")]
    pub(crate) experiment: PathBuf,
    /// Run only this seed instead of those of the experiment
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write the reports of all runs to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Number of runs in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    #[command(flatten)]
    pub(crate) python: PythonArgs,
}

/// `weir verify`.
#[derive(Debug, Group)]
pub(crate) struct Verify {
    /// Event log, as written by --record
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
}

/// `weir worker`.
#[derive(Debug, Group)]
pub(crate) struct Worker {
    /// Address for engines on this machine, by name or IP; port 0 picks a free port, which is printed
    #[arg(long, value_name = "HOST:PORT", value_parser = listen, required_unless_present = "fleet")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Machines that the worker may send features on to, or none [default: this machine only]
    #[arg(long, value_name = "HOST[:PORT],...", value_parser = hops, conflicts_with = "fleet")]
    pub(crate) hops: Option<HopNames>,
    /// Device class of the worker, as named in plans
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    pub(crate) class: String,
    /// Number of batches that run in parallel
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) shares: u32,
    /// Device that runs the partitions: cpu, or cuda:0
    #[arg(long, default_value = "cpu")]
    pub(crate) device: Device,
    /// Pin the worker to this core, counted from 0
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Emulate a device that is slower by this factor
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub(crate) slowdown: f64,
    /// Emulate a server whose uplink has this bandwidth, such as 1Gbps or 200Mbps
    #[arg(long, value_name = "BANDWIDTH")]
    pub(crate) bandwidth: Option<Bandwidth>,
}

/// `weir completions`.
#[derive(Debug, Group)]
pub(crate) struct Completions {
    /// Shell to print the script for
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `weir man`.
#[derive(Debug, Group)]
pub(crate) struct Man {
    /// Write weir.1 and a page per command into this folder instead of printing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir gears`.
#[derive(Debug, Subcommand)]
pub(crate) enum Gears {
    /// Let every stage of each cascade answer every item, and write how right and how certain it is
    Sample(GearsSample),
    /// Print accuracy and work of a cascade by certainty threshold: the points that no other beats
    Curve(GearsCurve),
    /// Plan gears: for each load, the stages that are asked and the certainty they need
    Plan(GearsPlan),
}

/// `weir gears sample`.
#[derive(Debug, Group)]
pub(crate) struct GearsSample {
    /// Graph to run
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    /// Videos to play instead of the graph's sources
    #[arg(value_name = "VIDEO")]
    pub(crate) videos: Vec<PathBuf>,
    /// Ground truth of the clip, for all streams or for the named one; the word names for a folder of images
    /// that are called after their text or class, up to a `_`
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
    /// Samples, as written by `weir gears sample`
    #[arg(value_name = "SAMPLES.jsonl")]
    pub(crate) samples: PathBuf,
    /// Cascade to evaluate; not needed if there is only one
    #[arg(long, value_name = "NAME")]
    pub(crate) cascade: Option<String>,
    /// Answer that counts: last, the last valid one, or surest, the one with the highest certainty
    #[arg(long, value_name = "WORD", default_value = "last", value_parser = ["last", "surest"])]
    pub(crate) settle: String,
    /// Print all points, including those that another beats
    #[arg(long)]
    pub(crate) all: bool,
    /// Draw the curve into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) out: Option<PathBuf>,
}

/// `weir gears plan`.
#[derive(Debug, Group)]
pub(crate) struct GearsPlan {
    /// Planning problem
    #[arg(value_name = "PROBLEM.toml")]
    pub(crate) problem: PathBuf,
    /// Print the placement and the gears of the picked plan
    #[arg(long)]
    pub(crate) explain: bool,
    /// Condition that picks a plan: the fastest with "accuracy >= 0.95", or the most accurate with "latency
    /// <= 80ms" or a drop rate, "latency <= 0.01" [default: the most accurate within the graph's slo]
    #[arg(long, value_name = "CONDITION")]
    pub(crate) pick: Option<Pick>,
    /// Write the picked plan to this file as gears
    #[arg(long, value_name = "GEARS.toml")]
    pub(crate) out: Option<PathBuf>,
}

/// Shows help, the version, or the problem with a command line; returns the matching exit code.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if name == "render" => weir_terminal::finish(
            Err(UserError::new(RENDER_MOVED).into()),
            weir_terminal::is_mendable,
        ),
        _ => weir_terminal::refuse(error),
    }
}

/// Message for `weir render`, which became a program of its own; old command lines and notes still name it.
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
