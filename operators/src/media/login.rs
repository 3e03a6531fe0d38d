//! Logins at devices that are asked about their streams: answers to challenges over HTTP, and the token of a SOAP request
//! (WS-Security, UsernameToken Profile 1.0: the password is sent as a digest).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine};
use sha1::{Digest, Sha1};

use super::relay::{self, Challenge};
use super::userinfo::encoded;

/// Latest time that a token can name: the end of the year 9999.
const MAX_TIME: Duration = Duration::from_secs(253_402_300_799);

/// A challenge that a device sent over HTTP, with the number of its answers.
#[derive(Debug, Clone)]
pub struct HttpLogin {
    challenge: Challenge,
    count: u32,
}

impl HttpLogin {
    /// Chooses the safest offer of the headers `WWW-Authenticate`.
    ///
    /// # Errors
    /// Names of the offers, if none of them can be answered.
    pub fn choose<'a>(headers: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let challenge = relay::choose(headers)?;
        Ok(Self { challenge, count: 0 })
    }

    /// True if the answer contains the password itself (Basic).
    #[must_use]
    pub fn sends_password(&self) -> bool {
        self.challenge.is_basic()
    }

    /// True if the answer is a digest by SHA-256.
    pub(super) fn is_by_sha_256(&self) -> bool {
        self.challenge.is_sha_256()
    }

    /// True if the last answer was right, but for its expired nonce.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.challenge.stale
    }

    /// Value of the header `Authorization` of the next request.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn authorization(
        &mut self,
        name: &str,
        password: &str,
        method: &str,
        path: &str,
    ) -> Result<String, String> {
        self.count += 1;
        let user = format!("{}:{}", encoded(name), encoded(password));
        let cnonce = relay::random()?;
        Ok(self.challenge.answer(&user, method, path, self.count, &cnonce))
    }
}

/// Digest of a password for one SOAP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoapDigest {
    /// Random bytes, in base64.
    pub nonce: String,
    /// Time by the clock of the device, such as `2026-11-30T08:00:00Z`.
    pub created: String,
    /// `base64(SHA1(nonce + created + password))`.
    pub digest: String,
}

impl SoapDigest {
    /// Digest of `password` at `now`, which is the time by the clock of the device.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(password: &str, now: SystemTime) -> Result<Self, String> {
        let time = now.max(UNIX_EPOCH).min(UNIX_EPOCH + MAX_TIME);
        let created = humantime::format_rfc3339_seconds(time).to_string();
        Ok(Self::of(relay::random()?.as_bytes(), created, password))
    }

    fn of(nonce: &[u8], created: String, password: &str) -> Self {
        let digest = Sha1::digest([nonce, created.as_bytes(), password.as_bytes()].concat());
        Self {
            nonce: BASE64_STANDARD.encode(nonce),
            digest: BASE64_STANDARD.encode(digest),
            created,
        }
    }
}

/// A random identifier in the form of a UUID (version 4).
///
/// # Errors
/// The system has no random numbers.
pub fn random_uuid() -> Result<String, String> {
    let digits = relay::random()?;
    Ok(format!(
        "{}-{}-4{}-8{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[13..16],
        &digits[17..20],
        &digits[20..32]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of ONVIF's guide for application programmers.
    #[test]
    fn soap_digest_is_that_of_the_standard() {
        let nonce: [u8; 16] = [
            0x2c, 0xaa, 0x88, 0xe8, 0x6f, 0xc0, 0x8a, 0x42, 0x82, 0x42, 0xb3, 0x74, 0xce, 0xa6, 0x45, 0x96,
        ];
        let token = SoapDigest::of(&nonce, "2010-09-16T07:50:45Z".to_owned(), "userpassword");
        assert_eq!(token.nonce, "LKqI6G/AikKCQrN0zqZFlg==");
        assert_eq!(token.digest, "tuOSpGlFlIXsozq4HFNeeGeFLEI=");
    }

    #[test]
    fn soap_digests_have_a_nonce_each_and_any_time() {
        let far = UNIX_EPOCH + MAX_TIME + Duration::from_secs(5);
        let one = SoapDigest::new("a", far).unwrap();
        let two = SoapDigest::new("a", UNIX_EPOCH - Duration::from_secs(5)).unwrap();
        assert_ne!(one.nonce, two.nonce);
        assert_eq!(one.created, "9999-12-31T23:59:59Z");
        assert_eq!(two.created, "1970-01-01T00:00:00Z");
    }

    #[test]
    fn http_answers_count_and_encode_the_password() {
        let offer = r#"Digest realm="r", nonce="n", qop="auth", Basic realm="r""#;
        let mut login = HttpLogin::choose([offer].into_iter()).unwrap();
        assert!(!login.sends_password() && !login.is_stale());
        let answer = login.authorization("ada", "p:@%41", "POST", "/onvif").unwrap();
        assert!(
            answer.contains("nc=00000001") && answer.contains("uri=\"/onvif\""),
            "{answer}"
        );
        let answer = login.authorization("ada", "p:@%41", "POST", "/onvif").unwrap();
        assert!(answer.contains("nc=00000002"), "{answer}");
        let mut basic = HttpLogin::choose(["Basic realm=\"r\""].into_iter()).unwrap();
        assert!(basic.sends_password());
        let answer = basic.authorization("ada", "p:@%41", "POST", "/onvif").unwrap();
        assert_eq!(answer, "Basic YWRhOnA6QCU0MQ==");
    }

    #[test]
    fn uuids_have_their_form() {
        let uuid = random_uuid().unwrap();
        let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
