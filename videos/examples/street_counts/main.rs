//! Evaluates counts, dwell times and speeds on rendered streets against ground truth: a line across the main
//! street before the crossing, the crossing as a zone, and speeds on it, with all frames and with half of
//! them missing at random.
//!
//! `street_counts [KEY=VALUE ...]` prints a table. The keys, with their defaults:
//!
//! - `seconds` (600): length of each street.
//! - `seeds` (1): several with commas.
//! - `light` (day): day, dusk, night or rain.
//! - `fps` (25): frames per second.
//! - `coming` (10), `leaving` (20): metres from the camera to the line for each direction.
//! - `stretch` (8-22): metres from the camera between which speeds are measured.
//! - `events`: `A.jsonl,B.jsonl`, one file for each seed, with objects that a detector found in the rendered
//!   clips. Without it, tracks come from the true boxes of all objects that are not hidden or cut off by
//!   half, unchanged and disturbed as a detector would. With it, `light` names the light of these clips; true
//!   and disturbed boxes are the same in any light.
//! - `cache=FOLDER`: keeps the ground truth, whose computation takes most of the time.
//! - `show=all`: names the crossings that were missed.
//! - `lost_after_ms` (2000): that of the tracker.
//!
//! A crossing counts as visible if at least two frames of the second before it, and two of the second after
//! it, show the object.

#![allow(clippy::print_stdout, reason = "it is a program whose output is the table")]

mod compare;
mod detected;
mod known;
mod run;

use std::error::Error;
use std::path::PathBuf;

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use weir_analytics::TrackerSettings;
use weir_videos::street::Street;
use weir_videos::{Light, Part, Seed};

use compare::{Sums, compare};
use known::{Known, Lines};
use run::{Shaken, found, run};

/// Draws of the frames that are missing.
const DRAWS: u64 = 5;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments {
    seconds: f64,
    seeds: Vec<u64>,
    light: Light,
    fps: f64,
    lines: Lines,
    events: Vec<String>,
    cache: Option<PathBuf>,
    show: bool,
    lost_after_ms: f64,
}

fn arguments() -> Outcome<Arguments> {
    let mut all = Arguments {
        seconds: 600.0,
        seeds: vec![1],
        light: Light::Day,
        fps: 25.0,
        lines: Lines {
            coming: 10.0,
            leaving: 20.0,
            stretch: [8.0, 22.0],
        },
        events: Vec::new(),
        cache: None,
        show: false,
        lost_after_ms: TrackerSettings::default().lost_after_ms,
    };
    for argument in std::env::args().skip(1) {
        let (key, value) = argument.split_once('=').ok_or("write KEY=VALUE")?;
        match key {
            "seconds" => all.seconds = value.parse()?,
            "seeds" => all.seeds = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "light" => all.light = Light::named(value).ok_or("light is day, dusk, night or rain")?,
            "fps" => all.fps = value.parse()?,
            "coming" => all.lines.coming = value.parse()?,
            "leaving" => all.lines.leaving = value.parse()?,
            "stretch" => {
                let (near, far) = value.split_once('-').ok_or("stretch is NEAR-FAR")?;
                all.lines.stretch = [near.parse()?, far.parse()?];
            }
            "events" => all.events = value.split(',').map(str::to_owned).collect(),
            "cache" => all.cache = Some(value.into()),
            "lost_after_ms" => all.lost_after_ms = value.parse()?,
            "show" => all.show = value == "all",
            other => return Err(format!("there is no {other}").into()),
        }
    }
    if !all.events.is_empty() && all.events.len() != all.seeds.len() {
        return Err("name a file of events for each seed".into());
    }
    Ok(all)
}

fn main() -> Outcome<()> {
    let arguments = arguments()?;
    let mut rows: Vec<(&str, &str, Sums)> = Vec::new();
    for (index, seed) in arguments.seeds.iter().enumerate() {
        let street = Street::new(Seed::new(Part::Clip, *seed), arguments.light);
        let (seconds, fps) = (arguments.seconds, arguments.fps);
        let file = format!("{seed}-{:?}-{seconds}-{fps}.jsonl", arguments.light).to_lowercase();
        let cache = arguments.cache.as_ref().map(|folder| folder.join(&file));
        let known = Known::new(&street, arguments.lines, (seconds, fps), cache.as_deref())?;
        println!(
            "street {seed}: {} crossings, {} visits, {} passages",
            known.crossings.len(),
            known.visits.len(),
            known.speeds.len()
        );
        let boxes = match arguments.events.get(index) {
            Some(path) => vec![("detected", detected::read(path, &known)?)],
            None => {
                let mut rng = Pcg64::seed_from_u64(*seed);
                let mut shaken = |by| known.boxes(by, &mut rng);
                vec![("true", shaken(None)), ("shaken", shaken(Some(Shaken::DETECTOR)))]
            }
        };
        for (name, frames) in &boxes {
            for (rate, draws) in [("all", 1), ("half", DRAWS)] {
                let mut sums = Sums::default();
                for draw in 0..draws {
                    let mut rng = Pcg64::seed_from_u64(seed * 1000 + draw);
                    let kept = frames
                        .iter()
                        .filter(|_| rate == "all" || rng.random_range(0.0..1.0) < 0.5);
                    let got = found(&run(kept, &known.transforms, arguments.lost_after_ms));
                    let is_shown = arguments.show && draw == 0 && *name != "shaken";
                    let show = is_shown.then(|| format!("{name}, {rate}, street {seed}"));
                    sums.add(&compare(&known, &got, show.as_deref()));
                }
                match rows.iter_mut().find(|row| (row.0, row.1) == (*name, rate)) {
                    Some((.., all)) => all.add(&sums),
                    None => rows.push((name, rate, sums)),
                }
            }
        }
    }
    println!(
        "\n| boxes | frames | crossings right | of those in sight | too many | visits found | dwell within 0.2 s | speed within 5 % |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, rate, sums) in rows {
        println!("| {name} | {rate} | {sums} |");
    }
    Ok(())
}
