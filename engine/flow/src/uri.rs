//! Addresses of sources as text: image names, and masking of credentials.

use std::borrow::Cow;
use std::path::Path;

/// Replaces a secret.
const MASK: &str = "***";

/// Schemes whose credentials are masked even without the slashes after the scheme.
const REMOTE_SCHEMES: [&str; 12] = [
    "rtsp", "rtsps", "http", "https", "rtmp", "rtmps", "rtp", "udp", "tcp", "srt", "mms", "ftp",
];

/// Parts of names of keys with secret values. Masking too much does no harm.
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

/// Beginnings of addresses, behind the scheme, whose path is a secret: hooks of services for messages.
const SECRET_PATHS: [&str; 4] = [
    "hooks.slack.com/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "api.telegram.org/bot",
];

/// True if the file name is that of a JPEG or PNG image.
#[must_use]
pub fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let known = ["jpg", "jpeg", "png"];
    extension.is_some_and(|extension| known.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The address with user and password, values of secret keys (`token=`, `password=`, `key=`), and paths of known hooks, replaced
/// by `***`. Local paths are unchanged. Masking is idempotent.
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
    let masked = masked_hooks(masked_values(&out));
    Cow::Owned(format!("{}{masked}", &uri[..start]))
}

/// The text with the paths of hooks masked, up to a query, a blank or a quote.
fn masked_hooks(mut text: String) -> String {
    for begin in SECRET_PATHS {
        let mut from = 0;
        while let Some(at) = text[from..].to_ascii_lowercase().find(begin) {
            let path = from + at + begin.len();
            let rest = &text[path..];
            let end = rest.find(|c: char| c.is_whitespace() || "?#\"'`".contains(c));
            let end = path + end.unwrap_or(rest.len());
            if end > path {
                text.replace_range(path..end, MASK);
            }
            from = path;
        }
    }
    text
}

/// Returns the address with its scheme in lower case. `RTSP://` equals `rtsp://` (RFC 3986, 3.1), but not in
/// comparisons of text. Other texts are unchanged.
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

/// True if addresses of this scheme are on other machines.
fn is_remote(scheme: &str) -> bool {
    REMOTE_SCHEMES
        .iter()
        .any(|remote| scheme.eq_ignore_ascii_case(remote))
}

/// Byte offset of the authority (user and host).
fn authority(uri: &str) -> Option<usize> {
    if let Some(at) = uri.find("://") {
        return Some(at + 3);
    }
    let (scheme, rest) = uri.split_once(':')?;
    is_remote(scheme).then(|| scheme.len() + 1 + rest.len() - rest.trim_start_matches('/').len())
}

/// Host of an address, in small letters and without its port, as FFmpeg reads it: what is before the first `/`, `?` or `#`, behind
/// the last `@` there.
#[must_use]
pub fn host(uri: &str) -> Option<String> {
    let (_, rest) = uri.split_once("://")?;
    let (_, place) = authority_of(rest);
    let host = match place.strip_prefix('[') {
        Some(inside) => inside.split(']').next(),
        None => place.split(':').next(),
    };
    host.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase)
}

/// True if servers of such addresses ask for a user and a password.
#[must_use]
pub fn takes_login(uri: &str) -> bool {
    let schemes = ["rtsp", "rtsps", "http", "https"];
    uri.split_once("://")
        .is_some_and(|(scheme, _)| schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// True if the address contains a user.
#[must_use]
pub fn has_login(uri: &str) -> bool {
    uri.split_once("://").is_some_and(|(_, rest)| {
        let (authority, place) = authority_of(rest);
        authority.len() > place.len()
    })
}

/// Returns user and password as they are written, and the address without them; `None` if the text is no address.
#[must_use]
pub fn split_login(uri: &str) -> Option<(Option<&str>, String)> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, place) = authority_of(rest);
    let (_, path) = rest.split_at(authority.len());
    let login = authority.strip_suffix(place)?.strip_suffix('@');
    Some((login, format!("{scheme}://{place}{path}")))
}

/// Returns the bytes of a text with `%40` and the like; percent signs without two digits stay.
#[must_use]
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let pair = bytes
            .get(at + 1..at + 3)
            .filter(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        let pair = pair.and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match byte {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

/// Finds a character that ends the part with user and password although it seems to belong to it. Returns it
/// with its escaped form; `None` if the address may be meant as it is parsed.
#[must_use]
pub fn raw_in_password(uri: &str) -> Option<(char, &'static str)> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, place) = authority_of(rest);
    let path = &rest[authority.len()..];
    if !is_remote(scheme) || is_place(place) || !path.contains('@') {
        return None;
    }
    Some(match path.chars().next()? {
        '#' => ('#', "%23"),
        '?' => ('?', "%3F"),
        _ => ('/', "%2F"),
    })
}

/// Schemes of addresses that are connected to, and so name a host.
const CONNECTED: [&str; 7] = ["rtsp", "rtsps", "http", "https", "rtmp", "rtmps", "tcp"];

/// Reason why an address cannot be connected to, and a remedy: it has no host, or an incomplete port.
#[must_use]
pub fn host_problem(uri: &str) -> Option<(&'static str, &'static str)> {
    let (scheme, rest) = uri.split_once("://")?;
    if !CONNECTED.iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    let (_, place) = authority_of(rest);
    if place.starts_with('[') && !place.contains(']') {
        return Some(("has no `]` behind its host", "write an IPv6 address as [::1]"));
    }
    if host(uri).is_none() {
        return Some((
            "names no host",
            "write it behind the two slashes: rtsp://camera/stream",
        ));
    }
    let port = place.rsplit(']').next().unwrap_or(place).split_once(':');
    let is_port = |port: &str| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0);
    match port {
        Some((_, port)) if !is_port(port) => Some(("names no port behind its `:`", "ports are 1 to 65535")),
        _ => None,
    }
}

/// Longest path of a service over HTTP.
const MAX_SERVICE_PATH: usize = 512;

/// True for the path of a service over HTTP, with its query, that can be requested.
#[must_use]
pub fn is_service_path(path: &str) -> bool {
    path.len() <= MAX_SERVICE_PATH
        && path.starts_with('/')
        && path.chars().all(|c| c.is_ascii_graphic())
        && !path.contains('#')
}

/// Reason why the path of the address of a service cannot be requested, and a remedy.
#[must_use]
pub fn service_path_problem(uri: &str) -> Option<(&'static str, &'static str)> {
    let (_, rest) = uri.split_once("://")?;
    let path = &rest[authority_of(rest).0.len()..];
    (!path.is_empty() && !is_service_path(path)).then_some((
        "has a path that cannot be requested",
        "a path begins with /, has at most 512 ASCII characters, no spaces and no #: write others as %20, %23 and so on",
    ))
}

/// User, password, host and port of what follows the scheme; host and port of it.
fn authority_of(rest: &str) -> (&str, &str) {
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    (
        authority,
        authority.rsplit_once('@').map_or(authority, |(_, place)| place),
    )
}

/// True if the text can be a host and a port.
fn is_place(place: &str) -> bool {
    place.starts_with('[')
        || place
            .split_once(':')
            .is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

/// Length in bytes of user and password with the `@` after them; 0 without them. Where an `@` in the path may end a password with
/// a raw `/`, `?` or `#` in it, it is taken to.
fn user_end(text: &str) -> usize {
    let (authority, place) = authority_of(text);
    let user = authority.len() - place.len();
    if place.starts_with('[') {
        return user;
    }
    let path = &text[authority.len()..];
    let path = if is_place(place) {
        &path[..next_address(path).unwrap_or(path.len())]
    } else {
        path
    };
    let Some(at) = path.rfind('@') else {
        return user;
    };
    // A host without a port or a user before it, such as that of `http://host/users/@me`.
    let is_host = user == 0 && !place.contains(':') && !path[..at].contains(':');
    if is_host { 0 } else { authority.len() + at + 1 }
}

/// Byte offset of another address in a text, such as the value of a key.
fn next_address(text: &str) -> Option<usize> {
    text.match_indices("://").map(|(at, _)| at).find(|at| {
        let scheme = text[..*at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next();
        scheme.is_some_and(is_remote)
    })
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
            (
                "https://hooks.slack.com/services/T0/B0/x1 and more",
                "https://hooks.slack.com/*** and more",
            ),
            (
                "https://Discord.com/api/webhooks/1/x1?wait=true",
                "https://Discord.com/api/webhooks/***?wait=true",
            ),
            (
                "https://api.telegram.org/bot1:x1/sendMessage",
                "https://api.telegram.org/bot***",
            ),
            ("https://hooks.slack.com/", "https://hooks.slack.com/"),
            ("rtsp://[::1]:554/a@b", "rtsp://[::1]:554/a@b"),
            ("rtsp://[::1]/a@b", "rtsp://[::1]/a@b"),
            ("http://host/users/@me", "http://host/users/@me"),
            // Digits before the slash may be a port, or the beginning of a password.
            ("rtsp://admin:12/34@camera/1", "rtsp://***@camera/1"),
            ("http://host:8080/users/@me", "http://***@me"),
            ("rtsp://admin:p@ss/w?r#d@camera/1", "rtsp://***@camera/1"),
            ("rtsp://ad/min:secret@camera/1", "rtsp://***@camera/1"),
            ("rtsp://admin:a://b@camera/1", "rtsp://***@camera/1"),
            (
                "http://u:p@proxy:80/?url=rtsp://u:p@cam/1",
                "http://***@proxy:80/?url=rtsp://***@cam/1",
            ),
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
    fn raw_characters_of_passwords_are_found() {
        for (uri, found) in [
            ("rtsp://admin:p#1@cam:554/live", Some(('#', "%23"))),
            ("rtsp://admin:p/1@cam/live", Some(('/', "%2F"))),
            ("http://admin:p?1@cam/live", Some(('?', "%3F"))),
            ("rtsp://admin:1234567/8@cam", Some(('/', "%2F"))),
            ("rtsp://admin:p@1@cam/live", None),
            ("rtsp://admin:p%231@cam:554/live@x", None),
            ("rtsp://cam:554/a@b", None),
            ("rtsp://[::1]:554/a@b", None),
            ("rtsp://cam:${PORT}/live", None),
            ("/videos/a:b/c@d", None),
        ] {
            assert_eq!(raw_in_password(uri), found, "{uri}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_connected_to_are_found() {
        for (uri, found) in [
            ("rtsp://", Some("names no host")),
            ("http://u:p@/x", Some("names no host")),
            ("rtsp://:554/x", Some("names no host")),
            ("rtsp://[::1", Some("`]`")),
            ("rtsp://cam:99999/x", Some("port")),
            ("rtsp://cam:0/x", Some("port")),
            ("rtsp://[::1]:x/", Some("port")),
            ("rtsp://cam:/x", None),
            ("rtsp://u:p@cam:554/x:y", None),
            ("rtsp://[::1]:554/x", None),
            ("udp://:5000", None),
            ("/videos/a.mp4", None),
        ] {
            let problem = host_problem(uri);
            assert_eq!(problem.is_some(), found.is_some(), "{uri}: {problem:?}");
            assert!(found.is_none_or(|part| problem.is_some_and(|(what, _)| what.contains(part))));
        }
    }

    #[test]
    fn hosts_are_read_as_ffmpeg_reads_them() {
        for (uri, expected) in [
            ("rtsp://u:p@ss@Cam:554/1@x", Some("cam")),
            ("http://[::1]:80/x", Some("::1")),
            ("http://cam?x@other", Some("cam")),
            ("http://cam#@other/", Some("cam")),
            ("http:///x", None),
            ("/path", None),
        ] {
            assert_eq!(host(uri).as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn addresses_with_a_user_are_found() {
        for (uri, takes, has) in [
            ("rtsp://camera/1@x", true, false),
            ("RTSPS://u@camera/1", true, true),
            ("https://u:p@[::1]:80/", true, true),
            ("rtmp://u:p@server/live", false, true),
            ("udp://:5000", false, false),
            ("/videos/a@b", false, false),
        ] {
            assert_eq!((takes_login(uri), has_login(uri)), (takes, has), "{uri}");
        }
    }

    #[test]
    fn logins_are_split_from_addresses() {
        for (uri, login, bare) in [
            ("rtsp://u:p@ss@cam:554/1@x", Some("u:p@ss"), "rtsp://cam:554/1@x"),
            ("http://u@[::1]?x", Some("u"), "http://[::1]?x"),
            ("http://@cam/", Some(""), "http://cam/"),
            ("http://cam#@other", None, "http://cam#@other"),
        ] {
            assert_eq!(split_login(uri), Some((login, bare.to_owned())), "{uri}");
        }
        assert_eq!(split_login("/videos/a@b"), None);
    }

    #[test]
    fn percent_signs_that_are_no_bytes_stay() {
        assert_eq!(percent_decoded("a%20b%C3%A4%zz%2%"), "a b\u{e4}%zz%2%".as_bytes());
        assert_eq!(percent_decoded("%E4"), [0xe4]);
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
