//! Access control. If the server has a token, requests must carry it; only `/healthz` and the files of the
//! page need none. Otherwise the header `Host` must name this machine, and a request with the `Origin` of
//! another site may change nothing.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::error::ApiError;
use crate::token::Token;

/// Checks that a request is allowed.
///
/// # Errors
/// [`ApiError`] with the reason: status 401 for a missing or wrong token, else 403.
pub(crate) fn check(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    token: Option<&Token>,
) -> Result<(), ApiError> {
    match token {
        Some(token) => check_token(headers, token),
        None => check_local(method, uri, headers),
    }
}

fn check_token(headers: &HeaderMap, token: &Token) -> Result<(), ApiError> {
    let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    if given.is_some_and(|given| token.is(given)) {
        return Ok(());
    }
    let what = if given.is_some() {
        "the token is not the one that this engine was started with"
    } else {
        "this engine needs a token"
    };
    let error = ApiError::with_status(StatusCode::UNAUTHORIZED, what);
    Err(error.hint("send the header Authorization: Bearer TOKEN"))
}

/// A page of another site can make a browser ask this machine: under a name of its own, which is then in `Host`, or from
/// its own origin, which is then in `Origin`.
fn check_local(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    if !host.is_some_and(is_local) {
        let error = ApiError::with_status(
            StatusCode::FORBIDDEN,
            "the header Host does not name this machine",
        );
        return Err(error.hint("ask for 127.0.0.1 or localhost, or start the engine with --token-file"));
    }
    let origin = headers.get(header::ORIGIN);
    let origin = origin.map(|origin| origin.to_str().unwrap_or_default());
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, of)| Some(of) == host);
    if !method.is_safe() && !origin.is_none_or(own) {
        return Err(ApiError::with_status(
            StatusCode::FORBIDDEN,
            "pages of other sites cannot change anything on this engine",
        ));
    }
    Ok(())
}

/// Whether `HOST[:PORT]` is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_known() {
        for local in [
            "localhost",
            "LOCALHOST:7400",
            "127.0.0.1:7400",
            "[::1]:7400",
            "127.1.2.3",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "example.org",
            "127.0.0.1.example.org:7400",
            "10.0.0.1",
            "",
            ":7400",
            "localhost.example",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }
}
