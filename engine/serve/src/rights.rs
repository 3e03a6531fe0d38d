//! Rights that rows of routes have: the role that an operation needs, and the cameras that it concerns.

use axum::http::StatusCode;

use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::role::{Identity, Role};

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

impl Scope {
    /// Name in the API description.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stream => "stream",
            Self::Incident => "incident",
            Self::Track => "track",
            Self::Filtered => "filtered",
            Self::Engine => "engine",
        }
    }
}

/// Role that an operation needs, and the cameras that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) role: Role,
    pub(crate) scope: Scope,
}

/// Right for a role and the cameras of an operation.
pub(crate) const fn right(role: Role, scope: Scope) -> Right {
    Right { role, scope }
}

/// The right for an operation without a row.
pub(crate) const STRICTEST: Right = right(Role::Edit, Scope::Engine);

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
        let values = [("name", &**name), ("role", right.role.name())];
        let error = error.code(ErrorCode::RoleTooLow, values);
        return Err(error.hint("ask for a token with that role"));
    }
    if right.scope == Scope::Engine && identity.cameras.is_some() {
        let what = format!("{name} sees some cameras only, and this concerns all of them");
        let error = ApiError::with_status(StatusCode::FORBIDDEN, what);
        return Err(error.code(ErrorCode::SomeCamerasOnly, [("name", &**name)]));
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
    let error = ApiError::with_status(StatusCode::FORBIDDEN, what);
    let values = [("name", &*identity.name), ("camera", stream)];
    Err(error.code(ErrorCode::CameraNotShown, values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{Operation, right_of, routes};

    #[test]
    fn routes_of_one_operation_need_the_same_right() {
        for route in routes() {
            assert_eq!(
                route.right,
                right_of(route.operation),
                "{} {}: rights of {:?}",
                route.method,
                route.path,
                route.operation
            );
        }
    }

    #[test]
    fn routes_that_change_need_more_than_view() {
        let own_session = ["/api/session"];
        for route in routes() {
            let changes = route.method != "GET" && !own_session.contains(&route.path);
            let right = right_of(route.operation);
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
        assert!(check(right_of(Operation::Metrics), &identity).is_ok());
        identity.cameras = Some(["door".to_owned()].into());
        assert!(check(right_of(Operation::Metrics), &identity).is_err());
        assert!(check(right_of(Operation::State), &identity).is_ok());
        assert!(check(right_of(Operation::PauseStream), &identity).is_err());
        assert!(check_stream(&identity, "door").is_ok() && check_stream(&identity, "yard").is_err());
    }
}
