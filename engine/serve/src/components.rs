//! Schemas that the routes name, such as those of request bodies.

mod engine;
mod graph;
mod kserve;
mod recorded;
mod streams;

use crate::schema::SchemaComponent;

const GROUPS: &[&[SchemaComponent]] = &[
    engine::COMPONENTS,
    streams::COMPONENTS,
    recorded::COMPONENTS,
    graph::COMPONENTS,
    kserve::COMPONENTS,
];

/// Returns all components.
pub(crate) fn components() -> impl Iterator<Item = &'static SchemaComponent> {
    GROUPS.iter().copied().flatten()
}
