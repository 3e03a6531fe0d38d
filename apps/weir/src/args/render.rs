//! `weir render`: arguments.

use std::path::PathBuf;

use clap::{Args as Group, Subcommand};
use weir_videos::{Part, WorldKind};

/// `weir render`.
#[derive(Debug, Subcommand)]
pub(crate) enum Render {
    /// Single pictures, each of another world, with truth.jsonl beside them
    Stills(Stills),
}

/// `weir render stills`.
#[derive(Debug, Group)]
pub(crate) struct Stills {
    /// Which world: street, live, game or card
    #[arg(value_name = "WORLD", value_parser = world)]
    pub(crate) world: WorldKind,
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) count: u64,
    /// Seed number of the first; it and the following ones are the names of the pictures
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    pub(crate) first: u64,
    /// What they are for, which never share a seed: train, validation or clip
    #[arg(long, value_name = "PART", default_value = "train", value_parser = part)]
    pub(crate) part: Part,
    /// Folder to make; pictures are NUMBER.jpg
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Threads that render; one a core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
}

fn world(text: &str) -> Result<WorldKind, String> {
    WorldKind::named(text).ok_or_else(|| format!("write {}", choice(&WorldKind::ALL)))
}

fn part(text: &str) -> Result<Part, String> {
    Part::named(text).ok_or_else(|| format!("write {}", choice(&Part::ALL)))
}

/// Names as a sentence offers them: `a, b or c`.
fn choice<T>(named: &[(&str, T)]) -> String {
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
