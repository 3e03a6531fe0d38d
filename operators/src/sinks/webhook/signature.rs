//! Signatures by HMAC-SHA256 (RFC 2104): Weir's own, and that of Standard Webhooks.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::{BASE64_STANDARD, Engine};
use sha2::{Digest, Sha256};

use crate::hexadecimal::hexadecimal;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Prefix of secrets of Standard Webhooks; the key follows in base64.
const PREFIX: &str = "whsec_";

/// Base64 as people paste it: its padding is taken off before, and bits of a last character that no byte has do not count.
const PASTED: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Bytes that such a key may have.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Key and form of signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Signer {
    /// Time stamp and body, in hexadecimal.
    Weir(Vec<u8>),
    /// Identifier, time stamp and body, in base64 (standardwebhooks.com).
    Standard(Vec<u8>),
}

impl Signer {
    /// The signer for a secret. Reasons never quote it.
    ///
    /// # Errors
    /// The secret is none of Standard Webhooks, where it must be.
    pub(super) fn new(secret: &str, is_standard: bool) -> Result<Self, &'static str> {
        if !is_standard {
            return Ok(Self::Weir(secret.as_bytes().to_vec()));
        }
        let key = secret.strip_prefix(PREFIX).map(|key| key.trim_end_matches('='));
        let key = key.and_then(|key| PASTED.decode(key).ok());
        let key = key.filter(|key| KEY_BYTES.contains(&key.len()));
        key.map(Self::Standard)
            .ok_or("a secret of Standard Webhooks is `whsec_` and 24 to 64 bytes in base64")
    }

    /// Headers that sign a body which is sent at `timestamp`, in seconds since 1970.
    pub(super) fn headers(&self, id: &str, timestamp: u64, body: &[u8]) -> Vec<(&'static str, String)> {
        let time = timestamp.to_string();
        match self {
            Self::Weir(key) => {
                let mac = hmac(key, &[time.as_bytes(), b".", body]);
                vec![("X-Weir-Signature", format!("sha256={}", hexadecimal(&mac)))]
            }
            Self::Standard(key) => {
                let mac = hmac(key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
                vec![
                    ("webhook-id", id.to_owned()),
                    ("webhook-timestamp", time),
                    ("webhook-signature", format!("v1,{}", BASE64_STANDARD.encode(mac))),
                ]
            }
        }
    }
}

fn hmac(key: &[u8], message: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new();
    inner.update(block.map(|byte| byte ^ 0x36));
    message.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 2 and 6 of RFC 4231.
    #[test]
    fn it_is_the_hmac_of_the_standard() {
        assert_eq!(
            hexadecimal(&hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hexadecimal(&hmac(
                &[0xaa; 131],
                &[b"Test Using Larger Than Block-Size Key - Hash Key First"]
            )),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        let signer = Signer::new("Jefe", false).expect("any text");
        let expected = format!("sha256={}", hexadecimal(&hmac(b"Jefe", &[b"7.{}"])));
        assert_eq!(signer.headers("a", 7, b"{}"), [("X-Weir-Signature", expected)]);
    }

    /// The vector that libraries of Standard Webhooks share.
    #[test]
    fn signatures_of_standard_webhooks_match_the_public_vector() {
        let signer = Signer::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true).expect("a secret");
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        assert_eq!(
            signer.headers(id, 1_614_265_330, br#"{"test": 2432232314}"#),
            [
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", "1614265330".to_owned()),
                (
                    "webhook-signature",
                    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn secret_may_lack_its_padding() {
        let headers = |secret: &str| {
            let signer = Signer::new(secret, true).expect("a secret");
            signer.headers("a", 7, b"{}")
        };
        for bytes in KEY_BYTES {
            let padded = format!("{PREFIX}{}", BASE64_STANDARD.encode(vec![7; bytes]));
            assert_eq!(headers(&padded), headers(padded.trim_end_matches('=')));
        }
    }

    #[test]
    fn secrets_that_are_none_of_standard_webhooks_are_refused_unquoted() {
        for secret in ["hunter2hunter2", "whsec_", "whsec_c2hvcnQ=", "whsec_***"] {
            let reason = Signer::new(secret, true).expect_err(secret);
            assert!(!reason.contains(secret) || secret == "whsec_", "{reason}");
        }
    }
}
