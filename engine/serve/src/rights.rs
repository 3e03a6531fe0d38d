//! The right that each operation needs. An operation that is missing in [`RIGHTS`] needs the role `edit` and all cameras; a test
//! fails where a route has none.

use axum::http::StatusCode;

use crate::error::ApiError;
use crate::role::{Identity, Role};
use crate::routes::ArchiveOperation as Archive;
use crate::routes::KServeOperation as KServe;
use crate::routes::Operation;

/// Cameras that an operation concerns. It decides what a client that is limited to some cameras receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// No camera: the answer is the same for all.
    None,
    /// The stream that the path names.
    Stream,
    /// The stream of the incident that the path names.
    Incident,
    /// The stream of the track that the path names.
    Track,
    /// All cameras; the answer to a limited client has its own cameras only.
    Filtered,
    /// The engine as a whole: refused for limited clients.
    Engine,
}

/// Role that an operation needs, and the cameras that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) role: Role,
    pub(crate) scope: Scope,
}

const fn right(operation: Operation, role: Role, scope: Scope) -> (Operation, Right) {
    (operation, Right { role, scope })
}

const fn kserve(operation: KServe, role: Role, scope: Scope) -> (Operation, Right) {
    right(Operation::KServe(operation), role, scope)
}

/// The right for an operation that the table lacks.
const STRICTEST: Right = Right {
    role: Role::Edit,
    scope: Scope::Engine,
};

/// Rights of all operations.
const RIGHTS: &[(Operation, Right)] = &[
    // Answered without authentication.
    right(Operation::Health, Role::View, Scope::None),
    right(Operation::Session, Role::View, Scope::None),
    right(Operation::SignIn, Role::View, Scope::None),
    right(Operation::SignOut, Role::View, Scope::None),
    right(Operation::Description, Role::View, Scope::None),
    right(Operation::State, Role::View, Scope::Filtered),
    right(Operation::ListStreams, Role::View, Scope::Filtered),
    right(Operation::WatchAll, Role::View, Scope::Filtered),
    right(Operation::Incidents, Role::View, Scope::Filtered),
    right(Operation::Watch, Role::View, Scope::Stream),
    right(Operation::StreamDrops, Role::View, Scope::Stream),
    right(Operation::StreamPicture, Role::View, Scope::Stream),
    right(Operation::Archive(Archive::Cameras), Role::View, Scope::Filtered),
    right(Operation::Archive(Archive::Segments), Role::View, Scope::Stream),
    right(Operation::Archive(Archive::Segment), Role::View, Scope::Stream),
    right(Operation::Archive(Archive::Export), Role::View, Scope::Stream),
    right(Operation::Incident, Role::View, Scope::Incident),
    right(Operation::ChangeIncident, Role::Operate, Scope::Incident),
    right(Operation::IncidentPicture, Role::View, Scope::Incident),
    right(Operation::IncidentClip, Role::View, Scope::Incident),
    right(Operation::Search, Role::View, Scope::Filtered),
    right(Operation::TrackPicture, Role::View, Scope::Track),
    right(Operation::Readiness, Role::View, Scope::Engine),
    right(Operation::Metrics, Role::View, Scope::Engine),
    right(Operation::Drops, Role::View, Scope::Engine),
    right(Operation::Timeline, Role::View, Scope::Engine),
    right(Operation::Fleet, Role::View, Scope::Engine),
    right(Operation::Policy, Role::View, Scope::Engine),
    right(Operation::Graph, Role::View, Scope::Engine),
    right(Operation::GraphFile, Role::View, Scope::Engine),
    right(Operation::GraphSchema, Role::View, Scope::None),
    kserve(KServe::Server, Role::View, Scope::None),
    kserve(KServe::ServerLive, Role::View, Scope::None),
    kserve(KServe::ServerReady, Role::View, Scope::Engine),
    kserve(KServe::Model, Role::View, Scope::Engine),
    kserve(KServe::ModelReady, Role::View, Scope::Engine),
    kserve(KServe::Infer, Role::Operate, Scope::Engine),
    right(Operation::Infer, Role::Operate, Scope::Engine),
    right(Operation::PauseStream, Role::Operate, Scope::Stream),
    right(Operation::ResumeStream, Role::Operate, Scope::Stream),
    right(Operation::ApplyPolicy, Role::Operate, Scope::Engine),
    right(Operation::AddStream, Role::Edit, Scope::Engine),
    right(Operation::Discover, Role::Edit, Scope::Engine),
    right(Operation::ChangeStream, Role::Edit, Scope::Stream),
    right(Operation::RemoveStream, Role::Edit, Scope::Stream),
    right(Operation::ApplyGraph, Role::Edit, Scope::Engine),
    right(Operation::CheckGraph, Role::Edit, Scope::Engine),
    right(Operation::SaveGraph, Role::Edit, Scope::Engine),
    right(Operation::UndoGraph, Role::Edit, Scope::Engine),
];

fn listed(operation: Operation) -> Option<Right> {
    let mut rights = RIGHTS.iter();
    rights.find(|(of, _)| *of == operation).map(|(_, right)| *right)
}

/// Returns the right that an operation needs.
pub(crate) fn of(operation: Operation) -> Right {
    listed(operation).unwrap_or(STRICTEST)
}

/// Checks that a client has the role for an operation, and may receive an answer that concerns the engine as a whole.
///
/// # Errors
/// [`ApiError`] with status 403 that names the role that is missing.
pub(crate) fn check(right: Right, identity: &Identity) -> Result<(), ApiError> {
    let name = &identity.name;
    if identity.role < right.role {
        let what = format!(
            "{name} has the role {}: this needs the role {}",
            identity.role, right.role
        );
        let error = ApiError::with_status(StatusCode::FORBIDDEN, what);
        return Err(error.hint("ask for a token with that role"));
    }
    if right.scope == Scope::Engine && identity.cameras.is_some() {
        let what = format!("{name} sees some cameras only, and this concerns all of them");
        return Err(ApiError::with_status(StatusCode::FORBIDDEN, what));
    }
    Ok(())
}

/// Checks that a client sees a stream.
///
/// # Errors
/// [`ApiError`] with status 403.
pub(crate) fn check_stream(identity: &Identity, stream: &str) -> Result<(), ApiError> {
    if identity.sees(stream) {
        return Ok(());
    }
    let what = format!("{} does not see the camera {stream}", identity.name);
    Err(ApiError::with_status(StatusCode::FORBIDDEN, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn each_route_has_one_right() {
        for route in ROUTES {
            let listed = RIGHTS.iter().filter(|(of, _)| *of == route.operation).count();
            assert_eq!(
                listed, 1,
                "{} {}: rights of {:?}",
                route.method, route.path, route.operation
            );
        }
    }

    #[test]
    fn routes_that_change_need_more_than_view() {
        let own_session = ["/api/session"];
        for route in ROUTES {
            let changes = route.method != "GET" && !own_session.contains(&route.path);
            let right = of(route.operation);
            assert_eq!(
                right.role > Role::View,
                changes,
                "{} {}",
                route.method,
                route.path
            );
            if matches!(right.scope, Scope::Stream | Scope::Incident | Scope::Track) {
                assert!(route.path.contains("{name}"), "{}", route.path);
            }
        }
    }

    #[test]
    fn viewer_of_some_cameras_gets_nothing_of_the_whole_engine() {
        let mut identity = Identity::new("lobby", Role::View);
        assert!(check(of(Operation::Metrics), &identity).is_ok());
        identity.cameras = Some(["door".to_owned()].into());
        assert!(check(of(Operation::Metrics), &identity).is_err());
        assert!(check(of(Operation::State), &identity).is_ok());
        assert!(check(of(Operation::PauseStream), &identity).is_err());
        assert!(check_stream(&identity, "door").is_ok() && check_stream(&identity, "yard").is_err());
    }
}
