//! User and password of an address.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine};
pub(super) use weir_flow::percent_decoded as decoded;
use weir_flow::{SourceLogin, has_login, takes_login};

/// Maximum size of a file with a password.
const MAX_PASSWORD_BYTES: u64 = 4 << 10;

/// The address with the user of `login` and the password in its file, both percent-encoded; unchanged if it has a user itself, or if
/// its servers ask for none.
///
/// # Errors
/// The reason why the file cannot be used, which shows nothing of its contents.
pub(super) fn with_login<'u>(uri: &'u str, login: Option<&SourceLogin>) -> Result<Cow<'u, str>, String> {
    let Some(login) = login.filter(|_| takes_login(uri) && !has_login(uri)) else {
        return Ok(Cow::Borrowed(uri));
    };
    let password = login.password_file.as_ref().map_or(Ok(String::new()), |file| {
        let failed = |reason: &str| format!("`password_file` {}: {reason}", file.display());
        let text = weir_files::read_text(file, MAX_PASSWORD_BYTES);
        let text = text.map_err(|error| failed(&error.to_string()))?;
        let password = text.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            return Err(failed("the file is empty: write the password into it"));
        }
        Ok(encoded(password))
    })?;
    let (scheme, rest) = uri.split_once("://").unwrap_or((uri, ""));
    Ok(format!("{scheme}://{}:{password}@{rest}", encoded(&login.user)).into())
}

/// User and password, decoded: those of `login`, else those in the address; `None` if there is neither.
///
/// # Errors
/// As [`with_login`].
pub(crate) fn user_and_password(
    uri: &str,
    login: Option<&SourceLogin>,
) -> Result<Option<(String, String)>, String> {
    let uri = with_login(uri, login)?;
    let text = |part: &str| String::from_utf8_lossy(&decoded(part)).into_owned();
    Ok(of(&uri).map(|user| {
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        (text(name), text(password))
    }))
}

/// Percent-encoding of all bytes but letters and digits of ASCII.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// User and password as they are written, without the `@` after them.
pub(super) fn of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// Value of an `Authorization` header.
pub(super) fn basic(user: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(decoded(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_files_are_encoded_whatever_their_characters() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let login = SourceLogin {
            user: "ad min".to_owned(),
            password_file: Some(file.clone()),
        };
        let address = |uri: &str| with_login(uri, Some(&login)).map(Cow::into_owned);
        assert!(address("rtsp://camera/1").unwrap_err().contains("password"));
        std::fs::write(&file, "\r\n").unwrap();
        assert!(address("rtsp://camera/1").unwrap_err().contains("is empty"));
        std::fs::write(&file, "a@:#%/ ?ü\n").unwrap();
        let with_both = "rtsp://ad%20min:a%40%3A%23%25%2F%20%3F%C3%BC@[::1]:554/1";
        assert_eq!(address("rtsp://[::1]:554/1").unwrap(), with_both);
        assert_eq!(decoded("a%40%3A%23%25%2F%20%3F%C3%BC"), "a@:#%/ ?ü".as_bytes());
        for uri in ["rtsp://u:p@camera/1", "udp://camera:1", "/videos/a.mp4"] {
            assert_eq!(address(uri).unwrap(), uri);
        }
        std::fs::write(&file, "x".repeat(5_000)).unwrap();
        assert!(address("http://camera/1").is_err());
        let without = SourceLogin {
            password_file: None,
            ..login
        };
        let address = with_login("http://camera/1", Some(&without)).unwrap();
        assert_eq!(address, "http://ad%20min:@camera/1");
    }

    #[test]
    fn credentials_are_written_as_basic_ones() {
        assert_eq!(of("http://a:b@c@host/x@y"), Some("a:b@c"));
        assert_eq!(of("http://host/x@y"), None);
        assert_eq!(
            basic("Aladdin:open%20sesame"),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        assert_eq!(basic("a:%2"), "Basic YTolMg==");
        assert_eq!(basic(""), "Basic ");
    }
}
