//! The routes of the API. Each route is one row: method, path, operation, right, parameters, bodies and replies. The router, the
//! checks of rights, the limits of bodies and the API description are made from these rows.

mod graph;
mod incidents;
pub(crate) mod interface;
mod pictures;
mod service;
mod spec;
mod streams;

use crate::rights::{Right, STRICTEST};

pub use spec::RouteSpec;
pub(crate) use spec::{ArchiveOperation, KServeOperation, Operation};

/// The schema of graph files, as it is served.
pub(crate) const GRAPH_SCHEMA: &str = include_str!("../../../docs/graph.schema.json");

const GROUPS: &[&[RouteSpec]] = &[
    service::ROUTES,
    streams::ROUTES,
    incidents::ROUTES,
    pictures::ROUTES,
    graph::ROUTES,
];

/// Returns all routes of the API; the files of the page are apart.
pub fn routes() -> impl Iterator<Item = &'static RouteSpec> {
    GROUPS.iter().copied().flatten()
}

/// Returns the first row of an operation; rows of one operation differ in their paths only.
pub(crate) fn of(operation: Operation) -> Option<&'static RouteSpec> {
    routes().find(|route| route.operation == operation)
}

/// Returns the right that an operation needs.
pub(crate) fn right_of(operation: Operation) -> Right {
    of(operation).map_or(STRICTEST, |route| route.right)
}
