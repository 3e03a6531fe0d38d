//! `bench-fleet`: 100 engines and 5,000 streams in virtual time: engines that fail once a minute, load that swings, both, with
//! redirection and without; and the processor time of a decision.

use std::io::Write as _;
use std::process::ExitCode;

use weir_reproduction::cpu_time::thread_cpu_s;
use weir_sim::fleet::{FleetResult, FleetWorld, simulate_fleet};
use weir_types::Span;

fn world(failing: bool, swing: f64, redirect: bool, load: f64) -> FleetWorld {
    let mut world = FleetWorld {
        engines: 100,
        streams: 5_000,
        load,
        swing,
        failure_every: if failing { Span::from_secs(60) } else { Span::ZERO },
        duration: Span::from_secs(900),
        ..FleetWorld::default()
    };
    world.fleet.redirect = redirect;
    world
}

fn row(out: &mut impl std::io::Write, name: &str, world: &FleetWorld) -> std::io::Result<()> {
    let before = thread_cpu_s();
    let result = simulate_fleet(world);
    let took = thread_cpu_s() - before;
    let FleetResult {
        unseen,
        seen_twice,
        longest_unseen_s,
        done,
        possible,
        moves_per_minute,
        swings_per_minute,
        failures,
        redirections,
        events,
    } = result;
    writeln!(
        out,
        "| {name} | {failures} | {:.4} | {:.4} | {longest_unseen_s:.2} | {:.2} | {:.2} | {moves_per_minute:.1} | \
         {swings_per_minute:.2} | {redirections} | {:.2} |",
        100.0 * unseen,
        100.0 * seen_twice,
        100.0 * done,
        100.0 * possible,
        1e6 * took / events.max(1) as f64,
    )
}

fn table() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "| 100 engines, 5,000 streams, 15 min | failures | unseen % | seen twice % | longest unseen s | work done % | possible % | \
         moves/min | swings/min | redirections | us/event |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )?;
    row(&mut out, "failing, load 0.6", &world(true, 0.0, true, 0.6))?;
    for redirect in [false, true] {
        let word = if redirect {
            "redirecting"
        } else {
            "rendezvous alone"
        };
        row(
            &mut out,
            &format!("swinging, load 0.8, {word}"),
            &world(false, 0.4, redirect, 0.8),
        )?;
        row(
            &mut out,
            &format!("both, load 0.8, {word}"),
            &world(true, 0.4, redirect, 0.8),
        )?;
    }
    row(
        &mut out,
        "both, load 1.0, redirecting",
        &world(true, 0.4, true, 1.0),
    )
}

fn main() -> ExitCode {
    match table() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
