//! The level of the crate `log` is the one that standard error shows, whatever level other layers ask for, so
//! that suppressed events cost little.

use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::{Identity, Layer};

#[test]
fn crates_are_asked_for_what_is_shown_whatever_others_want_of_one_place() {
    const DEFAULT: &str = "warn";
    let others = Targets::new().with_target("elsewhere", LevelFilter::TRACE);
    weir_terminal::log_to_stderr_beside(
        DEFAULT,
        weir_terminal::LogFormat::Text,
        vec![Identity::new().with_filter(others).boxed()],
    );
    // As there: an empty variable asks for nothing.
    let is_given = std::env::var_os("RUST_LOG").is_some_and(|given| !given.is_empty());
    let shown = if is_given {
        EnvFilter::from_default_env()
    } else {
        EnvFilter::new(DEFAULT)
    };
    let shown = shown.max_level_hint().map(|level| level.to_string());
    assert_eq!(Some(log::max_level().to_string().to_lowercase()), shown);
}
