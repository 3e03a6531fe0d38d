//! Single tables as they are in the text, each value with its position where a later check may complain of it.

use weir_config::{Field, Spanned};
use weir_policy::StreamShare;
use weir_types::Span;

use crate::graph::{Decoding, SourceMode, WhenSlow};

pub(crate) struct RawSource {
    pub(crate) name: Spanned<String>,
    pub(crate) uri: Option<String>,
    /// As given in the text.
    pub(crate) mode: Option<SourceMode>,
    pub(crate) fps: Option<f64>,
    pub(crate) sample: Option<f64>,
    pub(crate) decoding: Decoding,
    pub(crate) repeat: bool,
    pub(crate) slo: Option<Spanned<Span>>,
    pub(crate) share: StreamShare,
    /// Position of the key `reserve`.
    pub(crate) reserve_at: Option<usize>,
    pub(crate) connection: weir_flow::Connection,
}

pub(crate) struct RawDevice {
    pub(crate) name: Spanned<String>,
    pub(crate) slots: Option<u32>,
}

pub(crate) struct RawModule {
    pub(crate) name: Spanned<String>,
    /// Its name in the catalog, where it is there.
    pub(crate) operator: Field<String>,
    pub(crate) model: Field<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) regions: Field<Vec<Spanned<String>>>,
    pub(crate) weight: f64,
    /// Position of the key `labels`.
    pub(crate) labels_at: Option<usize>,
    /// Where it says what its items are, whether or not the word is known.
    pub(crate) items_at: Option<usize>,
    pub(crate) settings: weir_flow::Settings,
}

pub(crate) struct RawSink {
    pub(crate) name: Spanned<String>,
    pub(crate) kind: Field<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) when_slow: WhenSlow,
    /// Its output file, with the position of the key.
    pub(crate) path: Option<Spanned<String>>,
    pub(crate) settings: weir_flow::Settings,
}
