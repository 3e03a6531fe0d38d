//! User and password of an address.

use base64::prelude::{BASE64_STANDARD, Engine};

/// User and password as they are written, without the `@` after them.
pub(super) fn of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// The text of `%40` and the like.
pub(super) fn decoded(text: &str) -> Vec<u8> {
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

/// Value of an `Authorization` header.
pub(super) fn basic(user: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(decoded(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
