//! Bytes in hexadecimal digits, and digests of names in them.

use sha2::{Digest, Sha256};

/// Two lower-case digits for each byte.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first bytes of the SHA-256 digest of names, which tell lists of names apart.
pub(crate) fn digest(names: &[&str], bytes: usize) -> String {
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_bytes());
        digest.update([0]);
    }
    let mut digits = hexadecimal(&digest.finalize());
    digits.truncate(2 * bytes);
    digits
}
