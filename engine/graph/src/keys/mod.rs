//! Keys of the sections of the graph file. Each key is one row of a table: its name, the type and bounds of its value, its
//! default and its meaning.
//!
//! The parser takes known keys, hints of misspelt ones and bounds of numbers from these rows. `weir schema`, `weir keys`,
//! completion on the page and the list of keys that clients may edit are made from them, too. A key without a row is unknown
//! to the parser. The words of a key stand in the parser, too, each with its value there; a test compares them. Keys of
//! operators, heads, trackers, transforms and sinks are in the catalog ([`weir_flow::Catalog`]). [`since()`] knows the release
//! of a key of either kind.

mod key;
mod model;
mod module;
mod plain;
mod policy;
mod read;
mod since;
mod source;

pub use key::{Mark, REQUIRED, SectionKey, ValueKind, is_marked};
pub(crate) use key::{marked, names};
pub(crate) use model::{MAX_BATCH, MAX_LENGTH_ERROR, MAX_SERVERS};
pub use model::{MODEL, SCALING};
pub(crate) use module::MAX_STAGES;
pub use module::{MODULE, PER_TRACK, STAGE};
pub use plain::{APP, DEVICE, SINK, TRANSFORM, WORKER};
pub use policy::POLICY;
pub(crate) use policy::parts as policy_parts;
pub(crate) use read::{count, in_bounds, number, span};
pub use since::{FIRST_RELEASE, entry_since, is_listed, since};
pub use source::{CAMERA, GROUND, OBJECT, PRIVACY, REGION, SOURCE};
pub(crate) use source::{
    MAX_GATE_POLYGONS, MAX_GROUPS, MAX_POLYGONS, MAX_REGIONS, SCHEDULE_KEYS, camera_keys, default_keys,
    schedule_specs,
};

/// A section, or a table within one, with its keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Name of its definition in the JSON schema.
    pub name: &'static str,
    /// Its place in the graph file, as headings of the reference show it.
    pub place: &'static str,
    /// Keys beside those of an operator, head, tracker or type.
    pub keys: Vec<SectionKey>,
}

/// All sections in the order of the reference.
#[must_use]
pub fn sections() -> Vec<Section> {
    let section = |name, place, keys: &[SectionKey]| Section {
        name,
        place,
        keys: keys.to_vec(),
    };
    vec![
        section("app", "`[app]`", APP),
        section("policy", "`[policy]`", POLICY),
        section("source", "`[sources.NAME]`", SOURCE),
        section("camera", "`[cameras.NAME]`", &camera_keys()),
        section("defaults", "`[defaults]`", &default_keys()),
        section(
            "schedule",
            "`schedule` of a camera, `active` and `gate_schedule` of a source",
            &source::schedule_keys(),
        ),
        section("object", "`objects` of a source, by class", OBJECT),
        section("ground", "`ground` of a source", GROUND),
        section("privacy", "`privacy` of a source", PRIVACY),
        section("region", "`regions` of `privacy`", REGION),
        section("device", "`[devices.NAME]`", DEVICE),
        section("worker", "`[workers.NAME]`", WORKER),
        section("model", "`[models.NAME]`", MODEL),
        section("scaling", "`scaling` of a model", SCALING),
        section("module", "`[modules.NAME]`", MODULE),
        section("stage", "`cascade` of a module", STAGE),
        section("per_track", "`per_track` of a module", PER_TRACK),
        section("transform", "`[transforms.NAME]`", TRANSFORM),
        section("sink", "`[sinks.NAME]`", SINK),
    ]
}

/// Keys of a section by the name of its definition; empty if there is no such section.
#[must_use]
pub fn section(name: &str) -> Vec<SectionKey> {
    let found = sections().into_iter().find(|section| section.name == name);
    found.map(|section| section.keys).unwrap_or_default()
}
