//! Challenges of cameras that ask for a user and a password, and the answers to them: Digest by SHA-256 and MD5 (RFC 7616,
//! RFC 2617), and Basic (RFC 7617).

use md5::Md5;
use sha2::{Digest, Sha256};

use super::super::userinfo;
use crate::hexadecimal::hexadecimal;

/// Most that a header of a camera may offer.
const MAX_PARAMETERS: usize = 64;

/// Ways to answer, the preferred one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Method {
    Basic,
    Md5,
    Sha256,
}

/// A challenge that can be answered.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Challenge {
    method: Method,
    /// Whether the hash of the password covers the nonces too (`MD5-sess`).
    per_session: bool,
    realm: String,
    /// Empty for Basic.
    pub(super) nonce: String,
    opaque: Option<String>,
    /// Name of the algorithm as the camera writes it.
    algorithm: Option<String>,
    has_qop: bool,
    /// Whether the user and the password were right, and the nonce too old.
    pub(in super::super) stale: bool,
}

/// Chooses among what `headers` (`WWW-Authenticate`) offer.
///
/// # Errors
/// Names of what is offered, none of which is known.
pub(in super::super) fn choose<'a>(headers: impl Iterator<Item = &'a str>) -> Result<Challenge, String> {
    let offers: Vec<Offer> = headers.flat_map(offers).collect();
    let known = offers.iter().filter_map(Offer::challenge);
    known.max_by_key(|challenge| challenge.method).ok_or_else(|| {
        let mut names: Vec<String> = offers.iter().map(Offer::name).collect();
        names.sort();
        names.dedup();
        names.join(", ")
    })
}

impl Challenge {
    pub(in super::super) fn is_sha_256(&self) -> bool {
        self.method == Method::Sha256
    }

    /// True if the answer contains the password itself.
    pub(in super::super) fn is_basic(&self) -> bool {
        self.method == Method::Basic
    }

    /// Value of the `Authorization` of a request. `user` is written as in an address, `count` is the number of requests that
    /// were answered with this challenge so far, with this one.
    pub(in super::super) fn answer(
        &self,
        user: &str,
        method: &str,
        address: &str,
        count: u32,
        cnonce: &str,
    ) -> String {
        if self.method == Method::Basic {
            return userinfo::basic(user);
        }
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let (name, password) = (userinfo::decoded(name), userinfo::decoded(password));
        let realm = bytes(&self.realm);
        let mut secret = self.hash(&[&name, b":", &realm, b":", &password]);
        if self.per_session {
            secret = self.hash(&[
                secret.as_bytes(),
                b":",
                &bytes(&self.nonce),
                b":",
                cnonce.as_bytes(),
            ]);
        }
        let request = self.hash(&[method.as_bytes(), b":", &bytes(address)]);
        let count = format!("{count:08x}");
        let middle = if self.has_qop {
            format!(":{count}:{cnonce}:auth:")
        } else {
            ":".to_owned()
        };
        let response = self.hash(&[
            secret.as_bytes(),
            b":",
            &bytes(&self.nonce),
            middle.as_bytes(),
            request.as_bytes(),
        ]);
        let name: String = name.into_iter().map(char::from).collect();
        let mut out = format!(
            "Digest username={}, realm={}, nonce={}, uri={}, response=\"{response}\"",
            quoted(&name),
            quoted(&self.realm),
            quoted(&self.nonce),
            quoted(address),
        );
        if let Some(algorithm) = &self.algorithm {
            out.push_str(&format!(", algorithm={algorithm}"));
        }
        if let Some(opaque) = &self.opaque {
            out.push_str(&format!(", opaque={}", quoted(opaque)));
        }
        if self.has_qop {
            out.push_str(&format!(", qop=auth, nc={count}, cnonce=\"{cnonce}\""));
        } else if self.per_session {
            out.push_str(&format!(", cnonce=\"{cnonce}\""));
        }
        out
    }

    fn hash(&self, parts: &[&[u8]]) -> String {
        let text = parts.concat();
        match self.method {
            Method::Sha256 => hexadecimal(&Sha256::digest(text)),
            Method::Md5 | Method::Basic => hexadecimal(&Md5::digest(text)),
        }
    }
}

/// Bytes of a text whose characters stand for one each.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect()
}

fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars().filter(|c| !c.is_ascii_control()) {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// One offer of a header.
#[derive(Debug, Default)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .parameters
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn name(&self) -> String {
        let scheme: String = self.scheme.chars().take(40).collect();
        match (self.get("algorithm"), self.get("qop")) {
            (Some(algorithm), _) if algorithm_of(algorithm).is_none() => {
                let algorithm: String = algorithm.chars().take(40).collect();
                format!("{scheme} by {algorithm}")
            }
            (_, Some(_)) if scheme.eq_ignore_ascii_case("digest") => {
                format!("{scheme} without `qop=\"auth\"`")
            }
            _ => scheme,
        }
    }

    /// The challenge of this offer, if it can be answered.
    fn challenge(&self) -> Option<Challenge> {
        let (method, per_session) = match self.scheme.to_ascii_lowercase().as_str() {
            "basic" => (Method::Basic, false),
            "digest" => algorithm_of(self.get("algorithm").unwrap_or("MD5"))?,
            _ => return None,
        };
        let qop = self.get("qop").filter(|qop| !qop.trim().is_empty());
        let has_qop =
            qop.is_some_and(|qop| qop.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")));
        if qop.is_some() && !has_qop {
            return None;
        }
        Some(Challenge {
            method,
            per_session,
            realm: self.get("realm").unwrap_or_default().to_owned(),
            nonce: self.get("nonce").unwrap_or_default().to_owned(),
            opaque: self.get("opaque").map(str::to_owned),
            algorithm: self.get("algorithm").map(str::to_owned),
            has_qop,
            stale: self
                .get("stale")
                .is_some_and(|stale| stale.eq_ignore_ascii_case("true")),
        })
    }
}

/// An algorithm by its name, and whether it is one per session.
fn algorithm_of(name: &str) -> Option<(Method, bool)> {
    match name.to_ascii_lowercase().as_str() {
        "md5" => Some((Method::Md5, false)),
        "md5-sess" => Some((Method::Md5, true)),
        "sha-256" | "sha256" => Some((Method::Sha256, false)),
        "sha-256-sess" | "sha256-sess" => Some((Method::Sha256, true)),
        _ => None,
    }
}

/// Offers of one header: `SCHEME key=value, key="value", SCHEME ...`. Commas may be missing.
fn offers(header: &str) -> Vec<Offer> {
    let (mut found, mut rest) = (Vec::<Offer>::new(), header);
    for _ in 0..MAX_PARAMETERS {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace());
        let end = rest.find(|c: char| matches!(c, ',' | '=') || c.is_ascii_whitespace());
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        if word.is_empty() && after.is_empty() {
            break;
        }
        match after.trim_start().strip_prefix('=') {
            Some(value) => {
                let (value, after) = value_of(value.trim_start());
                if let Some(offer) = found.last_mut() {
                    offer.parameters.push((word.to_owned(), value));
                }
                rest = after;
            }
            None => {
                found.push(Offer {
                    scheme: word.to_owned(),
                    parameters: Vec::new(),
                });
                rest = after;
            }
        }
    }
    found
}

/// A value at the beginning of `text`, and the text after it.
fn value_of(text: &str) -> (String, &str) {
    let Some(inside) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_ascii_whitespace());
        let (value, after) = text.split_at(end.unwrap_or(text.len()));
        return (value.to_owned(), after);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in inside.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (value, &inside[at + 1..]),
            _ => {
                value.push(c);
                is_escaped = false;
            }
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = r#"Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=MD5, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#;
    const SHA: &str = r#"Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm=SHA-256, nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#;
    const CNONCE: &str = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";

    fn chosen(headers: &[&str]) -> Challenge {
        choose(headers.iter().copied()).unwrap()
    }

    /// The examples of RFC 7616, 3.9.1.
    #[test]
    fn digests_are_those_of_the_standard() {
        let user = "Mufasa:Circle%20of%20Life";
        for (offer, response) in [
            (MD5, "8ca523f5e9506fed4657c9700eebdbec"),
            (
                SHA,
                "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
            ),
        ] {
            let answer = chosen(&[offer]).answer(user, "GET", "/dir/index.html", 1, CNONCE);
            assert!(answer.contains(&format!("response=\"{response}\"")), "{answer}");
            assert!(answer.contains("qop=auth, nc=00000001") && answer.contains("opaque=\"FQhe/"));
        }
    }

    /// The example of RFC 2069 as its errata corrects it: without `qop`.
    #[test]
    fn a_digest_without_qop_is_that_of_the_first_standard() {
        let offer = r#"Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093""#;
        let answer = chosen(&[offer]).answer("Mufasa:CircleOfLife", "GET", "/dir/index.html", 1, "x");
        assert!(
            answer.contains("response=\"1949323746fe6a43ef61f9606e7febea\""),
            "{answer}"
        );
        assert!(!answer.contains("algorithm") && !answer.contains("cnonce"));
    }

    #[test]
    fn the_safest_offer_is_chosen_in_any_order() {
        let basic = "Basic realm=\"cam\"";
        for headers in [
            vec![MD5, SHA, basic],
            vec![basic, SHA, MD5],
            vec![&*format!("{basic}, {MD5}, {SHA}")],
        ] {
            assert_eq!(chosen(&headers).method, Method::Sha256, "{headers:?}");
        }
        assert_eq!(chosen(&[basic, MD5]).method, Method::Md5);
        assert_eq!(chosen(&[basic]).answer("a:b", "X", "y", 1, ""), "Basic YTpi");
        let odd =
            chosen(&["digest realm=\"a \\\"b\\\"\"  nonce=n,stale=TRUE algorithm=\"md5-SESS\" qop=\"\""]);
        assert_eq!(
            (odd.method, odd.per_session, odd.stale),
            (Method::Md5, true, true)
        );
        assert_eq!((&*odd.realm, &*odd.nonce, odd.has_qop), ("a \"b\"", "n", false));
        assert!(
            odd.answer("a\"%0d%0ab", "X", "y", 1, "c")
                .starts_with(r#"Digest username="a\"b", realm="a \"b\"""#)
        );
    }

    #[test]
    fn unknown_offers_are_named() {
        for (headers, named) in [
            (
                vec![r#"Digest realm="c", nonce="n", algorithm=SHA-512-256"#],
                "Digest by SHA-512-256",
            ),
            (
                vec![r#"Digest realm="c", nonce="n", qop="auth-int""#],
                "Digest without `qop=\"auth\"`",
            ),
            (vec!["Negotiate abc==", "Bearer"], "Bearer, Negotiate"),
            (vec!["", " ,, ="], ""),
        ] {
            let error = choose(headers.into_iter()).unwrap_err();
            assert_eq!(error.trim_matches([',', ' ']), named);
        }
        let long = format!("Digest {}", "a=\"".repeat(10_000));
        assert!(choose([&*long, "\u{e9}=\"\u{e9}"].into_iter()).is_ok());
    }
}
