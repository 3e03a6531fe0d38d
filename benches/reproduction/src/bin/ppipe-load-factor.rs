//! Simulated load factors beside those published for L4 and P4; needs the asset pack. Arguments are names of
//! data planes: `published` (default), `intervals`, `paper-head`, `reactive`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it prints what it finds"
)]

use std::process::ExitCode;

use weir_policy::reservations::BookingTable;
use weir_reproduction::ppipe::data_plane::{DataPlane, Dispatch};
use weir_reproduction::ppipe::load_factor::{compare, table};
use weir_reproduction::ppipe::published::Published;

fn main() -> ExitCode {
    let Some(published) = Published::from_env() else {
        println!("WEIR_ASSETS names no published files; there is nothing to compare with");
        return ExitCode::SUCCESS;
    };
    let mut plane = DataPlane::PUBLISHED;
    for name in std::env::args().skip(1) {
        match name.as_str() {
            "published" => {}
            "intervals" => plane.tables = BookingTable::Intervals,
            "paper-head" => plane.head_min_fraction = 0.0,
            "reactive" => plane.dispatch = Dispatch::Reactive,
            other => {
                eprintln!(
                    "ppipe-load-factor: \"{other}\" is not one of published, intervals, paper-head, reactive"
                );
                return ExitCode::from(2);
            }
        }
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    match compare(&published, plane, &[1, 2, 3], threads) {
        Ok(cases) => {
            print!("{}", table(&cases));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ppipe-load-factor: {error}");
            ExitCode::FAILURE
        }
    }
}
