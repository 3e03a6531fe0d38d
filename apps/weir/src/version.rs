//! Version, commit and features of this build; `build.rs` finds the latter two.

/// `0.2.0`, and the commit where it is known.
pub(crate) const SHORT: &str = env!("WEIR_SHORT_VERSION");
/// The same with the features of this build.
pub(crate) const LONG: &str = concat!(env!("WEIR_SHORT_VERSION"), "\nfeatures: ", env!("WEIR_FEATURES"));
