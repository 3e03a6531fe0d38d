//! The message of a caught panic.

use std::any::Any;

/// `panic` is what [`std::panic::catch_unwind`] gives; "no message" where it holds no text.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
