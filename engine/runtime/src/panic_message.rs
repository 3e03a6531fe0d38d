//! The message of a caught panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_flow::SessionError;

/// `panic` is what [`std::panic::catch_unwind`] gives; "no message" where it holds no text.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// The result of a step, or its error or panic as text.
pub(crate) fn caught<T>(step: impl FnOnce() -> Result<T, SessionError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("the session panicked: {}", panic_message(panic.as_ref()))),
    }
}
