//! One module a command.

mod check;
mod check_memory;
mod check_tiles;
mod detect;
mod discover;
mod doctor;
mod export;
mod fleet;
mod gears;
mod gears_plan;
mod gpu_check;
mod graph;
mod import;
mod init;
mod jobs;
mod keys;
mod manual;
mod models;
mod models_inspect;
mod openapi;
mod operators;
mod plan;
mod profile;
mod replay;
mod run;
mod schema;
mod score;
mod search;
mod serve;
mod session_memory;
mod simulate;
mod streams;
mod submit;
mod top;
mod verify;
mod worker;
mod zones;

use crate::args::{Args, Command, Gears, Import, Models};
use crate::settings::Settings;
use crate::zoo::Zoo;

/// Carries out what was asked for.
///
/// # Errors
/// The first thing that kept it from being done.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // They say what the program is, not what this machine has: no setting keeps them from it.
    match &args.command {
        Command::Completions(args) => return manual::completions(args),
        Command::Man(args) => return manual::man(args),
        _ => {}
    }
    let settings = Settings::of_process(args.settings.as_deref())?;
    let zoo = Zoo::new(&settings)?.with_python(args.command.python())?;
    match args.command {
        Command::Init(args) => init::init(&args, &zoo),
        Command::Import(Import::Frigate(args)) => import::frigate(&args, &zoo),
        Command::Discover(args) => discover::discover(&args),
        Command::Run(args) => run::run(args, &settings, &zoo),
        Command::Serve(args) => serve::serve(args, &settings, &zoo),
        Command::Streams(args) => streams::streams(&args),
        Command::Submit(args) => submit::submit(&args, &zoo),
        Command::Jobs(args) => jobs::jobs(&args),
        Command::Top(args) => top::top(&args),
        Command::Fleet(args) => fleet::fleet(&args),
        Command::Replay(args) => replay::replay(args, &settings, &zoo),
        Command::Detect(args) => detect::detect(&args, &settings, &zoo),
        Command::Score(args) => score::score(args, &settings, &zoo),
        Command::Simulate(args) => simulate::simulate(&args, &zoo),
        Command::Check(args) => check::check(&args, &settings, &zoo),
        Command::Graph(args) => graph::draw(&args, &zoo),
        Command::Profile(args) => profile::profile(&args, &zoo),
        Command::Gears(Gears::Sample(args)) => gears::sample(args, &settings, &zoo),
        Command::Gears(Gears::Curve(args)) => gears::curve(&args),
        Command::Gears(Gears::Plan(args)) => gears_plan::plan(&args, &zoo),
        Command::Plan(args) => plan::plan(&args),
        Command::Models(Models::List) => models::list(&zoo),
        Command::Models(Models::Search { words }) => models::search(&words, &zoo),
        Command::Models(Models::Inspect(args)) => models_inspect::inspect(&args, &zoo),
        Command::Models(Models::Pull { names }) => models::pull(&names, &zoo),
        Command::Keys => keys::keys(),
        Command::Operators => operators::operators(&zoo),
        Command::Schema => schema::schema(&zoo),
        Command::Openapi => openapi::openapi(),
        Command::Worker(args) => worker::worker(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Export(args) => export::export(&args, &zoo),
        Command::Search(args) => search::search(&args, &zoo),
        Command::Zones(args) => zones::zones(&args, &zoo),
        Command::Doctor => doctor::doctor(&settings, &zoo),
        Command::GpuCheck(args) => gpu_check::gpu_check(&args, &settings, &zoo),
        // Done above.
        Command::Completions(_) | Command::Man(_) => Ok(()),
    }
}

/// A number with its noun, such as `1 camera` or `2 cameras`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
