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
    /// Clients may not search; another search runs; the address is none, or the search cannot be sent.
    pub(super) fn find_cameras(&self, request: &DiscoverRequest) -> Result<Value, ApiError> {
        if !self.allow_any_source {
            let hint =
                "start weir serve with --allow-any-source, or run weir discover on the machine of the engine";
            return Err(ApiError::new(Refusal::Forbidden, "clients may not search for cameras").hint(hint));
        }
        let _search = match self.discovery.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let error = ApiError::new(Refusal::Busy, "another search for cameras runs");
                return Err(error.hint("wait for its end"));
            }
        };
        let login = match (&request.user, &request.password) {
            (Some(name), Some(password)) => Some(Login {
                name: name.clone(),
                password: password.clone(),
            }),
            _ => None,
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
