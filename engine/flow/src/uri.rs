//! Addresses of sources as text: image names, and masking of credentials.

use std::borrow::Cow;
use std::path::Path;

/// Replaces a secret.
const MASK: &str = "***";

/// Schemes that are masked even where the slashes after them are missing.
const REMOTE_SCHEMES: [&str; 12] = [
    "rtsp", "rtsps", "http", "https", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt", "mms", "ftp",
];

/// A key whose name contains one of these has a secret value. Masking too much does no harm.
const SECRET_KEYS: [&str; 14] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "secret",
    "key",
    "auth",
    "sig",
    "credential",
    "session",
    "jwt",
    "sas",
];

/// Whether the file name is that of a JPEG or PNG image.
#[must_use]
pub fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let known = ["jpg", "jpeg", "png"];
    extension.is_some_and(|extension| known.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The address with user and password, and values of secret keys (`token=`, `password=`, `key=`), replaced by `***`. Local
/// paths are unchanged. Masking is idempotent.
#[must_use]
pub fn mask_credentials(uri: &str) -> Cow<'_, str> {
    let Some(start) = authority(uri) else {
        return Cow::Borrowed(uri);
    };
    let mut out = String::with_capacity(uri.len());
    let mut rest = &uri[start..];
    loop {
        let host = user_end(rest);
        if host > 0 {
            out.push_str(MASK);
            out.push('@');
        }
        rest = &rest[host..];
        // An address may contain another one.
        let Some(next) = rest.find("://").map(|at| at + 3) else {
            break;
        };
        out.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    out.push_str(rest);
    Cow::Owned(format!("{}{}", &uri[..start], masked_values(&out)))
}

/// The address with its scheme in small letters: `RTSP://` is `rtsp://` (RFC 3986, 3.1), but not to who compares texts. Other texts
/// are unchanged.
#[must_use]
pub fn with_small_scheme(uri: &str) -> Cow<'_, str> {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match uri.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) && scheme.contains(|c: char| c.is_ascii_uppercase()) => {
            Cow::Owned(format!("{}://{rest}", scheme.to_ascii_lowercase()))
        }
        _ => Cow::Borrowed(uri),
    }
}

/// Byte offset of the authority (user and host).
fn authority(uri: &str) -> Option<usize> {
    if let Some(at) = uri.find("://") {
        return Some(at + 3);
    }
    let (scheme, rest) = uri.split_once(':')?;
    let remote = REMOTE_SCHEMES
        .iter()
        .any(|remote| scheme.eq_ignore_ascii_case(remote));
    remote.then(|| scheme.len() + 1 + rest.len() - rest.trim_start_matches('/').len())
}

/// Length in bytes of user and password with the `@` after them; 0 without them.
fn user_end(text: &str) -> usize {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let (authority, path) = text.split_at(end);
    if let Some(at) = authority.rfind('@') {
        return at + 1;
    }
    // A password with a slash in it, which should have been written as %2F: what looks like the port is no number.
    let is_host = match authority.split_once(':') {
        None => true,
        Some(_) if authority.starts_with('[') => true,
        Some((_, port)) => !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()),
    };
    path.rfind('@').filter(|_| !is_host).map_or(0, |at| end + at + 1)
}

/// The text with the values of secret keys masked.
fn masked_values(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(equals) = rest.find('=') {
        let (before, after) = rest.split_at(equals + 1);
        out.push_str(before);
        let name = before[..equals]
            .rsplit(['?', '&', ';', '/', '#', '='])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        rest = after;
        if SECRET_KEYS.iter().any(|secret| name.contains(secret)) {
            let end = after.find(['&', ';', '#']).unwrap_or(after.len());
            if end > 0 {
                out.push_str(MASK);
            }
            rest = &after[end..];
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_secrets_are_masked() {
        for (uri, shown) in [
            (
                "rtsp://admin:secret@camera/stream?x=1",
                "rtsp://***@camera/stream?x=1",
            ),
            ("rtsp://admin:p@ss@10.0.0.1:554/1", "rtsp://***@10.0.0.1:554/1"),
            ("rtsp://admin:pa/ss@camera:554/1", "rtsp://***@camera:554/1"),
            ("rtsp:admin:secret@camera/1", "rtsp:***@camera/1"),
            ("RTSP:/admin:secret@camera/1", "RTSP:/***@camera/1"),
            (
                "https://host/live.m3u8?token=abc&x=1",
                "https://host/live.m3u8?token=***&x=1",
            ),
            (
                "https://host/a?X-Amz-Signature=abc#t=1",
                "https://host/a?X-Amz-Signature=***#t=1",
            ),
            (
                "http://host/a?API_KEY=a=b&Password=c;pwd=d",
                "http://host/a?API_KEY=***&Password=***;pwd=***",
            ),
            (
                "rtsp://cam/user=a&password=b&channel=1",
                "rtsp://cam/user=a&password=***&channel=1",
            ),
            (
                "rtsp://cam/user=a_password=b_channel=1",
                "rtsp://cam/user=a_password=***",
            ),
            (
                "http://proxy/?url=rtsp://u:p@cam/1",
                "http://proxy/?url=rtsp://***@cam/1",
            ),
            ("rtsp://[::1]:554/a@b", "rtsp://[::1]:554/a@b"),
            ("rtsp://[::1]/a@b", "rtsp://[::1]/a@b"),
            ("http://host:8080/users/@me", "http://host:8080/users/@me"),
            (
                "/videos/user:x@home/key=5/a.mp4",
                "/videos/user:x@home/key=5/a.mp4",
            ),
            ("file:a@b.mp4", "file:a@b.mp4"),
            (
                "emulated:poisson?rate=100&seed=1",
                "emulated:poisson?rate=100&seed=1",
            ),
            ("", ""),
        ] {
            assert_eq!(mask_credentials(uri), shown);
        }
    }

    #[test]
    fn schemes_are_in_small_letters() {
        for (uri, small) in [
            ("RTSP://Camera/Stream", "rtsp://Camera/Stream"),
            ("Https://host/A?u=HTTP://b", "https://host/A?u=HTTP://b"),
            ("rtsp://camera", "rtsp://camera"),
            ("/Videos/A://b", "/Videos/A://b"),
            ("A b://c", "A b://c"),
            ("://x", "://x"),
        ] {
            assert_eq!(with_small_scheme(uri), small);
        }
    }

    #[test]
    fn images_are_recognised_by_extension() {
        let images = ["a.jpg", "B.JPEG", "c.d.png", "notes.txt", "png", ".png"];
        let found = images.map(|name| is_image(Path::new(name)));
        assert_eq!(found, [true, true, true, false, false, false]);
    }

    proptest! {
        #[test]
        fn masking_hides_secrets_and_is_idempotent(
            scheme in prop::sample::select(REMOTE_SCHEMES.to_vec()),
            user in "[a-z]{0,5}",
            password in "\\PC{0,12}",
            key in prop::sample::select(vec!["token", "access_token", "pwd", "X-Secret-Id"]),
            value in "[^&;#@]{0,12}",
        ) {
            let uri = format!("{scheme}://{user}:S3CR3T{password}@host/path?a=1&{key}=V4LU3{value}&b=2");
            let shown = mask_credentials(&uri).into_owned();
            prop_assert!(!shown.contains("S3CR3T") && !shown.contains("V4LU3"), "{uri} is shown as {shown}");
            prop_assert_eq!(mask_credentials(&shown), shown.as_str());
        }

        #[test]
        fn masking_any_text_is_idempotent(text in "\\PC*", start in "(rtsp://)?") {
            let uri = format!("{start}{text}");
            let shown = mask_credentials(&uri).into_owned();
            prop_assert_eq!(mask_credentials(&shown), shown.as_str());
        }
    }
}
