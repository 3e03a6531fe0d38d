//! Redirects of servers: followed within their host, a bounded number of times, and never to a connection that is less
//! protected.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use weir_flow::host;

use super::access::scheme;
use super::userinfo;
use super::web_login::WebLogin;

/// Head of an answer, whose body was not read.
type Answer = ureq::http::Response<ureq::Body>;

/// Redirects in a row that are followed.
pub(super) const MAX_REDIRECTS: u32 = 5;

/// Longest wait for the answer of a server, in seconds.
const MAX_WAIT_S: u64 = 10;

pub(super) fn too_many() -> String {
    format!("its server redirects more than {MAX_REDIRECTS} times: name the address that the video is at")
}

/// Checks a redirect.
///
/// # Errors
/// The reason, if it leads to another host or to another kind of address.
pub(super) fn check(from: &str, to: &str) -> Result<(), String> {
    let (Some(scheme_from), Some(scheme_to)) = (scheme(from), scheme(to)) else {
        return Err("its server redirects to what is not an address: check the path".to_owned());
    };
    let Some(host_to) = host(to) else {
        return Err("its server redirects to an address without a host: check the path".to_owned());
    };
    if host(from).as_ref() != Some(&host_to) {
        return Err(format!(
            "its server redirects to another host, {scheme_to}://{host_to}, which is not followed: name that address if it is \
             the right one"
        ));
    }
    let is_kept = scheme_from == scheme_to
        || matches!(
            (scheme_from.as_str(), scheme_to.as_str()),
            ("http", "https") | ("rtsp", "rtsps")
        );
    if is_kept {
        Ok(())
    } else {
        Err(format!(
            "its server redirects from {scheme_from}:// to {scheme_to}://, which is not followed: name that address if it is \
             the right one"
        ))
    }
}

/// The address of a redirect with the user and the password of the one before. Only for one that passed [`check`].
pub(super) fn with_credentials(from: &str, to: String) -> String {
    match (userinfo::of(from), userinfo::of(&to), to.split_once("://")) {
        (Some(user), None, Some((scheme, rest))) => format!("{scheme}://{user}@{rest}"),
        _ => to,
    }
}

/// The address that a web server redirects `url` to; `None` where it does not, or is not reached.
pub(super) fn location(url: &str, verify: bool, ca_file: Option<&str>, timeout: Duration) -> Option<String> {
    let answer = ask(url, verify, ca_file, timeout)?;
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = answer.headers().get("location")?.to_str().ok()?.trim().to_owned();
    Some(absolute(url, &location))
}

/// Kind of content that a web server gives for `url`, in small letters and without parameters: `text/html`.
pub(super) fn content_type(
    url: &str,
    verify: bool,
    ca_file: Option<&str>,
    timeout: Duration,
) -> Option<String> {
    let answer = ask(url, verify, ca_file, timeout)?;
    let kind = answer.headers().get("content-type")?.to_str().ok()?;
    let kind = kind.split(';').next()?.trim().to_ascii_lowercase();
    (answer.status().is_success() && !kind.is_empty() && kind.len() < 80).then_some(kind)
}

/// The login that the web server of `url` asks for; `None` if it asks for none, is not reached, or `url` has no user.
///
/// # Errors
/// Names of the ways to log in that it offers, none of which is known.
pub(super) fn login(
    url: &str,
    verify: bool,
    ca_file: Option<&str>,
    timeout: Duration,
) -> Result<Option<WebLogin>, String> {
    let answer = agent(verify, ca_file, timeout).and_then(|agent| get(&agent, url, None));
    answer.map_or(Ok(None), |answer| asked_login(url, &answer))
}

/// The head of the answer to a request of `url`, with its user and password if the server asks for them. Its body is not read.
fn ask(url: &str, verify: bool, ca_file: Option<&str>, timeout: Duration) -> Option<Answer> {
    let agent = agent(verify, ca_file, timeout)?;
    let answer = get(&agent, url, None)?;
    match asked_login(url, &answer) {
        Ok(Some(login)) => get(&agent, url, Some(login.authorization.as_str())),
        Ok(None) | Err(_) => Some(answer),
    }
}

fn asked_login(url: &str, answer: &Answer) -> Result<Option<WebLogin>, String> {
    if answer.status().as_u16() != 401 {
        return Ok(None);
    }
    let challenges = answer.headers().get_all("www-authenticate");
    WebLogin::new(url, challenges.iter().filter_map(|offer| offer.to_str().ok()))
}

/// Requests `url` without its user, with a value of the header `Authorization` if there is one.
fn get(agent: &Agent, url: &str, authorization: Option<&str>) -> Option<Answer> {
    let (scheme, rest) = url.split_once("://")?;
    let place = userinfo::of(url).map_or(rest, |user| &rest[user.len() + 1..]);
    let mut request = agent.get(format!("{scheme}://{place}"));
    if let Some(authorization) = authorization {
        request = request.header("Authorization", authorization);
    }
    request.call().ok()
}

/// Client of web servers, which follows no redirects; `None` where no certificate is trusted.
fn agent(verify: bool, ca_file: Option<&str>, timeout: Duration) -> Option<Agent> {
    let config = Agent::config_builder()
        .timeout_global(Some(timeout.min(Duration::from_secs(MAX_WAIT_S))))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .proxy(None)
        .tls_config(tls(verify, ca_file)?)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")));
    Some(config.build().into())
}

/// Verification of certificates; `None` where no certificate is trusted.
fn tls(verify: bool, ca_file: Option<&str>) -> Option<TlsConfig> {
    let builder = TlsConfig::builder().disable_verification(!verify);
    let trusted: Vec<Certificate<'static>> = match ca_file {
        Some(path) => {
            let pem = std::fs::read(path).ok()?;
            ureq::tls::parse_pem(&pem)
                .filter_map(|item| match item {
                    Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect()
        }
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            system
                .iter()
                .map(|der| Certificate::from_der(der).to_owned())
                .collect()
        }
    };
    Some(builder.root_certs(RootCerts::new_with_certs(&trusted)).build())
}

/// `location` as an address of its own.
pub(super) fn absolute(url: &str, location: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return location.to_owned();
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    if location.contains("://") && !location.starts_with('/') {
        return location.to_owned();
    }
    if location.starts_with("//") {
        return format!("{scheme}:{location}");
    }
    if location.starts_with('/') {
        return format!("{scheme}://{authority}{location}");
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
    format!("{scheme}://{authority}{folder}{location}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_their_host_and_keep_their_protection() {
        for to in [
            "http://CAM/2",
            "https://cam/2",
            "http://cam:81/2",
            "http://u:p@cam/2",
        ] {
            assert_eq!(check("http://cam/1", to), Ok(()), "{to}");
        }
        for to in [
            "http://other/",
            "http://cam@other/",
            "http://cam.other/",
            "ftp://cam/",
            "file:///etc/passwd",
            "/x",
        ] {
            assert!(check("http://cam/1", to).is_err(), "{to}");
        }
        assert!(check("https://cam/1", "http://cam/1").is_err());
        let refused = check("http://cam/1", "http://user:secret@other/?token=abc").unwrap_err();
        assert!(
            !refused.contains("secret") && !refused.contains("abc"),
            "{refused}"
        );
    }

    #[test]
    fn locations_are_read_as_addresses() {
        for (location, expected) in [
            ("http://b/x", "http://b/x"),
            ("//b/x", "http://b/x"),
            ("/x?a=1", "http://u:p@a:81/x?a=1"),
            ("y.ts", "http://u:p@a:81/c/y.ts"),
        ] {
            assert_eq!(absolute("http://u:p@a:81/c/d?e=/f", location), expected);
        }
        assert_eq!(absolute("http://a", "y"), "http://a/y");
        let kept = with_credentials("http://u:p@cam/1", "http://cam/2".to_owned());
        assert_eq!(kept, "http://u:p@cam/2");
    }
}
