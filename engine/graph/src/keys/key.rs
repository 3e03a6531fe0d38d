//! Form of a row: a key with the type of its value, its default, its meaning and its marks.

use weir_flow::KeyKind;
use weir_types::Span;

/// Default of a key that its table must have.
pub const REQUIRED: &str = "required";

/// Type and bounds of the value of a key. Texts of any kind may come from variables of the environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueKind {
    /// A value of a kind that keys of operators and sinks have, too.
    Plain(KeyKind),
    /// A number above this bound.
    Above(f64),
    /// A number of at least this bound.
    AtLeast(f64),
    /// A rate of frames with its unit: `"5fps"`.
    FrameRate,
    /// A bandwidth with its unit: `"10Gbps"`.
    Bandwidth,
    /// A duration within these bounds.
    DurationIn(Span, Span),
    /// A text or a list of at most this many texts.
    TextOrTexts(usize),
    /// A polygon, in fractions of the picture.
    Polygon,
    /// A polygon, or a list of at most this many polygons, in fractions of the picture.
    Polygons(usize),
    /// Four points in fractions of the picture.
    FourPoints,
    /// A polygon, or a list of at most this many polygons and tables of the section `region`.
    Regions(usize),
    /// A table of another section, by its name in [`super::sections`].
    Table(&'static str),
    /// Tables of another section, each under a name of its own.
    Tables(&'static str),
    /// A list of tables of another section, of a length within bounds.
    TableList {
        /// Name of the section in [`super::sections`].
        section: &'static str,
        /// Least number of tables.
        min: usize,
        /// Greatest number of tables.
        max: usize,
    },
    /// Tables of transforms, each under a name of its own. Their type is fixed, or `None`: they name their types.
    Parts(Option<&'static str>),
    /// Options of FFmpeg: a table with the keys of the catalog.
    Options,
    /// Batch sizes up to this bound, ascending.
    Batches(u32),
    /// Durations by batch size, or the path of a file with them.
    Profile,
    /// Durations by batch size for each of several devices.
    Profiles,
    /// A drop rule: its name, or a table with `rule` and its parameters.
    DropRule,
    /// Name of a preset of the policy.
    Preset,
    /// Operations of planned queues.
    Operations,
    /// A part of the policy: its name, a flag, or a table with its parameters.
    Strategy,
}

impl ValueKind {
    pub(crate) const TEXT: Self = Self::Plain(KeyKind::Text);
    pub(crate) const TEXTS: Self = Self::Plain(KeyKind::Texts);
    pub(crate) const FLAG: Self = Self::Plain(KeyKind::Flag);
    pub(crate) const FILE: Self = Self::Plain(KeyKind::File);
    pub(crate) const DURATION: Self = Self::Plain(KeyKind::Duration);
    pub(crate) const BYTES: Self = Self::Plain(KeyKind::Bytes);
    /// A fraction from 0 to 1.
    pub(crate) const FRACTION: Self = Self::number(0.0, 1.0);

    pub(crate) const fn words(words: &'static [&'static str]) -> Self {
        Self::Plain(KeyKind::OneOf(words))
    }

    pub(crate) const fn number(min: f64, max: f64) -> Self {
        Self::Plain(KeyKind::Number { min, max })
    }

    pub(crate) const fn integer(min: i64, max: i64) -> Self {
        Self::Plain(KeyKind::Integer { min, max })
    }
}

/// A property of a key that decides where it may stand and who may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Cameras may have it, too.
    Camera,
    /// `[defaults]` may have it, too.
    Defaults,
    /// A default that only sources at `rtsp://` addresses take.
    Rtsp,
    /// A default that only sources take whose addresses ask for a login and contain none.
    Login,
    /// A default that emulated sources do not take.
    Decoded,
    /// It belongs to the picture of a stream: a stream that takes the place of a source keeps it.
    Picture,
    /// Clients of the API may change it in the graph file. Other keys can name files, addresses or programs, or hide videos.
    Clients,
    /// Queued sources may have it.
    Queued,
    /// Only queued sources may have it.
    QueuedOnly,
    /// Only modules with a `cascade` may have it.
    Cascade,
    /// Trackers may have it.
    Tracker,
}

/// A key of a section: one row of its table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionKey {
    /// Name of the key in the graph file.
    pub name: &'static str,
    /// Type and bounds of its value.
    pub kind: ValueKind,
    /// Default, as the file would have it or in words; [`REQUIRED`]; `none` if the key has no effect by itself.
    pub default: &'static str,
    /// Meaning, as a phrase without a full stop.
    pub about: &'static str,
    /// Properties that differ from those of most keys.
    pub marks: &'static [Mark],
}

impl SectionKey {
    /// True if the key has this property.
    #[must_use]
    pub fn has(&self, mark: Mark) -> bool {
        self.marks.contains(&mark)
    }

    /// True if a table without this key is an error.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.default == REQUIRED
    }

    /// Returns its meaning and its default as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut letters = self.about.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        let about: String = first.chain(letters).collect();
        match self.default {
            "none" | REQUIRED => format!("{about}."),
            default if default.starts_with("required") => format!("{about}; {default}."),
            default => format!("{about}; default {default}."),
        }
    }
}

/// Names of keys.
pub(crate) fn names(keys: &[SectionKey]) -> Vec<&'static str> {
    keys.iter().map(|key| key.name).collect()
}

/// Names of the keys that have a property.
pub(crate) fn marked(keys: &'static [SectionKey], mark: Mark) -> impl Iterator<Item = &'static str> {
    keys.iter().filter(move |key| key.has(mark)).map(|key| key.name)
}

/// True if a table has a key of this name with this property.
#[must_use]
pub fn is_marked(keys: &[SectionKey], name: &str, mark: Mark) -> bool {
    keys.iter().any(|key| key.name == name && key.has(mark))
}
