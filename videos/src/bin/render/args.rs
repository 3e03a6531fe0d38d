//! The command line's shape.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use weir_videos::{Light, Part, WorldKind};

/// Render a world with known ground truth: a clip, single pictures, scenes in words, or the faces of the
/// gallery
#[derive(Debug, Parser)]
#[command(name = "render", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Kind of output to render.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A clip of a crossing, seen from a fixed camera
    Street(StreetClip),
    /// A clip of people near the camera
    Live(Clip),
    /// A clip of a game with its display
    Game(Clip),
    /// A clip of a test card: moving bars, a square and a clock
    Card(Clip),
    /// Single pictures of different worlds, with their ground truth in truth.jsonl
    Stills(Stills),
    /// Scenes without pictures: a prompt and a report of each, as JSON lines
    Scenes(Scenes),
    /// Faces of the people in a gallery, as PNG
    Gallery(Gallery),
}

/// `render street`.
#[derive(Debug, Group)]
pub(crate) struct StreetClip {
    /// Light: day, dusk, night or rain
    #[arg(long, value_name = "LIGHT", default_value = "day", value_parser = light)]
    pub(crate) light: Light,
    #[command(flatten)]
    pub(crate) clip: Clip,
}

/// `render WORLD`.
#[derive(Debug, Group)]
pub(crate) struct Clip {
    /// Length in seconds, 0.01 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) seconds: f64,
    /// Seed number, which selects one of all worlds of this kind
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// Purpose of the rendering; parts never share a seed: train, validation or clip
    #[arg(long, value_name = "PART", default_value = "clip", value_parser = part)]
    pub(crate) part: Part,
    /// Frames per second, 1 to 120
    #[arg(long, value_name = "F", default_value = "25", value_parser = fps, allow_negative_numbers = true)]
    pub(crate) fps: f64,
    /// File to write; its ground truth is written to CLIP.truth.jsonl beside it
    #[arg(long, value_name = "CLIP.mp4")]
    pub(crate) out: PathBuf,
    /// Quality, 0 to 51: lower is better and larger
    #[arg(long, value_name = "N", default_value = "27", value_parser = crf, allow_negative_numbers = true)]
    pub(crate) crf: f64,
    /// Video codec of the file
    #[arg(long, value_enum, default_value = "h264")]
    pub(crate) codec: Codec,
    /// Maximum number of frames from one key frame to the next
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) gop: u32,
    /// Maximum number of consecutive frames that may be predicted from later ones
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(..=8))]
    pub(crate) b_frames: u32,
    /// Space frames unevenly and leave some out
    #[arg(long)]
    pub(crate) variable_rate: bool,
    /// Time in seconds from which frames have two thirds of their size
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "b_frames", allow_negative_numbers = true)]
    pub(crate) resize_at: Option<f64>,
    /// Leave out every N-th packet, for a damaged stream
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    pub(crate) lose: Option<u64>,
    /// Threads that render; one a core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
}

/// Video codec of a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    /// H.264
    H264,
    /// H.265, where FFmpeg has libx265
    Hevc,
}

/// `render gallery`.
#[derive(Debug, Group)]
pub(crate) struct Gallery {
    /// Folder to make, with a folder for each person
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Purpose of the people; parts never share a person: train, validation or clip
    #[arg(long, value_name = "PART", default_value = "clip", value_parser = part)]
    pub(crate) part: Part,
    /// Number of people, from the first on; clips show 20 by name
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) people: u64,
}

/// `render stills`.
#[derive(Debug, Group)]
pub(crate) struct Stills {
    /// World to render: street, live, game or card
    #[arg(value_name = "WORLD", value_parser = world)]
    pub(crate) world: WorldKind,
    /// Number of pictures
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) count: u64,
    /// Seed number of the first; pictures are named by their seed numbers
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    pub(crate) first: u64,
    /// Purpose of the pictures; parts never share a seed: train, validation or clip
    #[arg(long, value_name = "PART", default_value = "train", value_parser = part)]
    pub(crate) part: Part,
    /// Light of a street: day, dusk, night or rain; by default day or dusk, depending on the seed
    #[arg(long, value_name = "LIGHT", value_parser = light)]
    pub(crate) light: Option<Light>,
    /// Folder to make; pictures are NUMBER.jpg
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Number of threads that render; one per core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
}

/// `render scenes`.
#[derive(Debug, Group)]
pub(crate) struct Scenes {
    /// Number of scenes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) count: u64,
    /// Seed number of the first
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    pub(crate) first: u64,
    /// Purpose of the scenes; parts never share a seed: train, validation or clip
    #[arg(long, value_name = "PART", default_value = "train", value_parser = part)]
    pub(crate) part: Part,
    /// File to write
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) out: PathBuf,
}

fn world(text: &str) -> Result<WorldKind, String> {
    WorldKind::named(text).ok_or_else(|| format!("write {}", choice(&WorldKind::ALL)))
}

fn part(text: &str) -> Result<Part, String> {
    Part::named(text).ok_or_else(|| format!("write {}", choice(&Part::ALL)))
}

fn light(text: &str) -> Result<Light, String> {
    Light::named(text).ok_or_else(|| format!("write {}", choice(&Light::ALL)))
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.01, 3600.0)
}

fn fps(text: &str) -> Result<f64, String> {
    within(text, 1.0, 120.0)
}

fn crf(text: &str) -> Result<f64, String> {
    within(text, 0.0, 51.0)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("write a number from {least} to {most}"))
}

/// Names as a sentence offers them: `a, b or c`.
fn choice<T>(named: &[(&str, T)]) -> String {
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_holds_together() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
