//! Searches for cameras that clients ask for.

use std::sync::TryLockError;
use std::time::Duration;

use serde_json::Value;
use weir_serve::{ApiError, DiscoverRequest, Refusal};

use super::Service;
use super::refusals::invalid;
use crate::discover::{self, Login, NamedDevice};

/// Time to wait for answers to a search.
const WAIT: Duration = Duration::from_secs(3);

impl Service {
    /// Searches the networks of this machine, or asks one device. A search sends requests to hosts that the graph does not name, so
    /// clients may search only if they may name any source.
    ///
    /// # Errors
    /// Clients may not search; another search runs; the address or the login is none, or the search cannot be sent.
    pub(super) fn find_cameras(&self, request: &DiscoverRequest) -> Result<Value, ApiError> {
        if !self.allow_any_source {
            let hint =
                "start weir serve with --allow-any-source, or run weir discover on the machine of the engine";
            return Err(ApiError::new(Refusal::Forbidden, "clients may not search for cameras").hint(hint));
        }
        let login = login(request)?;
        let _search = match self.discovery.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let error = ApiError::new(Refusal::Busy, "another search for cameras runs");
                return Err(error.hint("wait for its end"));
            }
        };
        let found = match &request.address {
            Some(address) => {
                let device = address.parse::<NamedDevice>();
                let device = device.map_err(|why| invalid(format!("`address` is {address:?}: {why}")))?;
                discover::ask(&[device], WAIT, login.as_ref())
            }
            None => discover::search(None, WAIT, login.as_ref())
                .map_err(|error| ApiError::new(Refusal::Failed, error.to_string()))?,
        };
        Ok(discover::as_json(&found))
    }
}

/// The login for the cameras, if the request has one.
///
/// # Errors
/// The request has a user without a password, or a password without a user.
fn login(request: &DiscoverRequest) -> Result<Option<Login>, ApiError> {
    let (given, missing) = match (&request.user, &request.password) {
        (None, None) => return Ok(None),
        (Some(name), Some(password)) => {
            return Ok(Some(Login {
                name: name.clone(),
                password: password.clone(),
            }));
        }
        (Some(_), None) => ("user", "password"),
        (None, Some(_)) => ("password", "user"),
    };
    Err(invalid(format!("`{given}` is given without `{missing}`"))
        .hint(format!("add `{missing}`, or leave out `{given}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(user: Option<&str>, password: Option<&str>) -> DiscoverRequest {
        DiscoverRequest {
            address: None,
            user: user.map(str::to_owned),
            password: password.map(str::to_owned),
        }
    }

    #[test]
    fn half_a_login_is_refused_with_the_missing_key() {
        assert!(login(&request(None, None)).unwrap().is_none());
        let both = login(&request(Some("ada"), Some("s3cret"))).unwrap().unwrap();
        assert_eq!((both.name.as_str(), both.password.as_str()), ("ada", "s3cret"));
        for (user, password, missing) in [
            (Some("ada"), None, "without `password`"),
            (None, Some("s3cret"), "without `user`"),
        ] {
            let error = login(&request(user, password)).unwrap_err();
            assert!(error.what().ends_with(missing), "{}", error.what());
            assert!(!error.what().contains("s3cret"), "{}", error.what());
        }
    }
}
