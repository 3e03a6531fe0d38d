//! Logins at web servers. FFmpeg answers Basic and Digest by MD5 by itself; it knows no Digest by SHA-256, and takes the last of several
//! offers.

use std::borrow::Cow;

use super::login::HttpLogin;
use super::userinfo;

/// Answer to the challenge of a web server. It may contain the password, and is never shown.
#[cfg_attr(test, derive(Debug))]
pub(super) struct WebLogin {
    /// Value of the header `Authorization` of the next request.
    pub(super) authorization: String,
    /// True if FFmpeg cannot give this answer.
    pub(super) is_unknown_to_ffmpeg: bool,
}

impl WebLogin {
    /// Answers the safest of the challenges of a server for a GET request of `url`; `None` if `url` has no user.
    ///
    /// # Errors
    /// Names of the challenges, if none of them can be answered.
    pub(super) fn new<'a>(
        url: &str,
        challenges: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Self>, String> {
        let Ok(Some((name, password))) = userinfo::user_and_password(url, None) else {
            return Ok(None);
        };
        let challenges: Vec<&str> = challenges.collect();
        let mut login = HttpLogin::choose(challenges.iter().copied())?;
        let authorization = login.authorization(&name, &password, "GET", &request_target(url));
        // Without random numbers there is no answer.
        Ok(authorization.ok().map(|authorization| Self {
            authorization,
            is_unknown_to_ffmpeg: is_unknown_to_ffmpeg(&challenges),
        }))
    }
}

/// Whether FFmpeg can answer none of the challenges of a server: of Digest it takes the last one alone.
fn is_unknown_to_ffmpeg(challenges: &[&str]) -> bool {
    let last = challenges.iter().rev().find(|challenge| {
        let scheme = challenge.split_ascii_whitespace().next();
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("digest"))
    });
    last.is_some_and(|last| {
        HttpLogin::choose(std::iter::once(*last)).map_or(true, |login| login.is_by_sha_256())
    })
}

/// Path and query of an address, as a request names them.
fn request_target(url: &str) -> Cow<'_, str> {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    let target = place.find(['/', '?', '#']).map_or("", |at| &place[at..]);
    let target = target.split('#').next().unwrap_or_default();
    if target.starts_with('/') {
        Cow::Borrowed(target)
    } else {
        Cow::Owned(format!("/{target}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "Digest realm=\"cam\", nonce=\"def\", algorithm=MD5";
    const SHA_256: &str = "Digest realm=\"cam\", nonce=\"abc\", algorithm=SHA-256, qop=\"auth\"";

    fn login(url: &str, challenges: &[&str]) -> Result<Option<WebLogin>, String> {
        WebLogin::new(url, challenges.iter().copied())
    }

    #[test]
    fn the_safest_challenge_is_answered_if_ffmpeg_cannot() {
        let url = "http://view%40er:p%23@10.0.0.7:81/live/mjpeg?ch=1";
        let sha_512 = "Digest realm=\"cam\", nonce=\"ghi\", algorithm=SHA-512-256";
        let basic = "Basic realm=\"cam\"";
        for (challenges, part, is_unknown) in [
            (&[MD5, SHA_256][..], "algorithm=SHA-256", true),
            (&[SHA_256][..], "nc=00000001", true),
            (&[MD5, sha_512][..], "nonce=\"def\"", true),
            (&[SHA_256, MD5][..], "algorithm=SHA-256", false),
            (&[basic, MD5][..], "username=\"view@er\"", false),
            (&[basic][..], "Basic dmlld0BlcjpwIw==", false),
        ] {
            let login = login(url, challenges).unwrap().unwrap();
            assert_eq!(login.is_unknown_to_ffmpeg, is_unknown, "{challenges:?}");
            assert!(login.authorization.contains(part), "{}", login.authorization);
            let has_target = login.authorization.contains("uri=\"/live/mjpeg?ch=1\"");
            assert_eq!(has_target, !part.starts_with("Basic"), "{}", login.authorization);
        }
    }

    #[test]
    fn no_login_is_made_without_a_user_or_a_known_challenge() {
        assert!(login("http://10.0.0.7/live", &[SHA_256]).unwrap().is_none());
        let unknown = "Digest realm=\"cam\", nonce=\"abc\", algorithm=SHA-512-256";
        let names = login("http://a:b@10.0.0.7/live", &[unknown]).unwrap_err();
        assert_eq!(names, "Digest by SHA-512-256");
    }

    #[test]
    fn requests_name_path_and_query() {
        for (url, expected) in [
            ("http://a:b@cam", "/"),
            ("http://a:b@cam/", "/"),
            ("http://a:b@cam?x=/1", "/?x=/1"),
            ("https://a:b@[::1]:81/x/y?z=/1", "/x/y?z=/1"),
        ] {
            assert_eq!(request_target(url), expected);
        }
    }
}
