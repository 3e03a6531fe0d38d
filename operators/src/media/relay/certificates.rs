//! Certificates of encrypted cameras: verified by authorities or by a pinned fingerprint, and an error for each way in which
//! that fails.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use weir_flow::Settings;

use crate::hexadecimal::hexadecimal;

/// Bytes of a file of certificates: all authorities of a system have a quarter of that.
const MAX_BYTES: u64 = 1 << 20;

/// Fingerprint of a certificate: the SHA-256 of its DER encoding.
type Fingerprint = [u8; 32];

/// Verification of the certificate of a camera.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Trust {
    /// By the authorities of a file, or those of the system.
    Authorities(Option<String>),
    /// By its fingerprint alone.
    Pinned(Fingerprint),
    /// Not at all.
    Anything,
}

impl Trust {
    /// Trust as the options of a source at `scheme` declare it.
    ///
    /// # Errors
    /// The fingerprint is none, or is of no use with this scheme.
    pub(in super::super) fn of(scheme: &str, options: &Settings) -> Result<Self, String> {
        if let Some(text) = options.text("tls_fingerprint") {
            if scheme != "rtsps" {
                return Err(format!(
                    "`tls_fingerprint` is verified for rtsps:// only, not for {scheme}://: {}",
                    match scheme {
                        "https" => "name the certificate by `ca_file` instead",
                        _ => "leave it out",
                    }
                ));
            }
            let fingerprint = fingerprint_of(text).ok_or(
                "`tls_fingerprint` is \"sha256:\" and 64 hexadecimal digits: `openssl x509 -noout \
                 -fingerprint -sha256 -in camera.pem` prints it",
            )?;
            return Ok(Self::Pinned(fingerprint));
        }
        if options.flag("tls_verify", true) {
            Ok(Self::Authorities(options.text("ca_file").map(str::to_owned)))
        } else {
            Ok(Self::Anything)
        }
    }
}

/// Reads `sha256:AA:BB...`; colons between digits may be missing.
fn fingerprint_of(text: &str) -> Option<Fingerprint> {
    let (name, digits) = text.trim().split_once([':', '='])?;
    let name = name.to_ascii_lowercase();
    if !matches!(name.as_str(), "sha256" | "sha-256" | "sha256 fingerprint") {
        return None;
    }
    let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b':').collect();
    let mut out = Fingerprint::default();
    if digits.len() != 2 * out.len() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16);
        let pair = value(pair[0])? << 4 | value(pair[1])?;
        *byte = u8::try_from(pair).ok()?;
    }
    Some(out)
}

/// Certificates of a file, as PEM.
fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |reason: &str| format!("`ca_file` {path}: {reason}");
    let there = std::fs::metadata(Path::new(path)).map_err(|error| failed(&weir_files::io_reason(&error)))?;
    if !there.is_file() || there.len() > MAX_BYTES {
        return Err(failed("it is no file of certificates"));
    }
    let pem = std::fs::read(path).map_err(|error| failed(&weir_files::io_reason(&error)))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(failed(
            "it holds no certificate as PEM (`-----BEGIN CERTIFICATE-----`)",
        )),
    }
}

/// Verifies certificates, and keeps the fingerprint of the last one.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    by_authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    found: Mutex<Option<Fingerprint>>,
}

impl Verifier {
    /// # Errors
    /// The file of authorities cannot be used, or there are none.
    pub(super) fn new(trust: &Trust) -> Result<Arc<Self>, String> {
        let provider = Arc::new(ring::default_provider());
        let mut by_authorities = None;
        if let Trust::Authorities(file) = trust {
            let mut roots = RootCertStore::empty();
            match file {
                Some(path) => {
                    for certificate in certificates(path)? {
                        let added = roots.add(certificate);
                        added.map_err(|error| {
                            format!("`ca_file` {path}: a certificate cannot be read ({error})")
                        })?;
                    }
                }
                None => {
                    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                }
            }
            let built =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
            by_authorities = Some(built.map_err(|_| {
                "this system has no certificates of authorities: name that of the camera by `ca_file`, or \
                 pin it by `tls_fingerprint`"
            })?);
        }
        Ok(Arc::new(Self {
            trust: trust.clone(),
            by_authorities,
            algorithms: provider.signature_verification_algorithms,
            found: Mutex::default(),
        }))
    }

    /// Settings of a connection that is verified by this.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn config(self: &Arc<Self>) -> Result<Arc<ClientConfig>, Error> {
        let verifier = Arc::clone(self);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }

    /// Why a connection to `host` failed, and the remedy.
    pub(super) fn reason(&self, error: &Error, host: &str) -> String {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.map_or_else(String::new, |found| format!("sha256:{}", hexadecimal(&found)));
        let pin = format!("pin it by `tls_fingerprint = \"{found}\"` if it is the camera's own");
        let aside = "(`tls_verify = false` would accept any)";
        match error {
            Error::InvalidCertificate(_) if matches!(self.trust, Trust::Pinned(_)) => format!(
                "the certificate is not the pinned one, it has the fingerprint {found}: another machine \
                 answers, or the camera has a new certificate; check which, and change `tls_fingerprint` \
                 then"
            ),
            Error::InvalidCertificate(CertificateError::NotValidForName) => {
                format!(
                    "the certificate is not for the name {host}: write the name that it is for into the \
                     address, or {pin}"
                )
            }
            Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => {
                // As in `DnsName("camera.example")`.
                let inside =
                    |name: &String| name.split('"').nth(1).unwrap_or(name).chars().take(80).collect();
                let names: Vec<String> = presented.iter().take(4).map(inside).collect();
                let names = if names.is_empty() {
                    "no name".to_owned()
                } else {
                    names.join(", ")
                };
                format!(
                    "the certificate is for {names}, not for {host}: write a name that it is for into the \
                     address, or {pin}"
                )
            }
            Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => format!(
                "the certificate has expired: renew it in the camera, check the clock of this machine, or \
                 {pin}"
            ),
            Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => format!(
                "the certificate is not valid yet: check the clocks of the camera and of this machine, or \
                 {pin}"
            ),
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => format!(
                "the certificate is not signed by a trusted authority: name the authority by `ca_file`, \
                 or {pin} {aside}"
            ),
            Error::InvalidCertificate(other) => {
                format!("the certificate cannot be verified ({other}): {pin} {aside}")
            }
            Error::InvalidMessage(_) => {
                "the other side does not speak TLS: check the port, or use rtsp:// if the camera does not \
                 encrypt"
                    .to_owned()
            }
            Error::PeerIncompatible(_) | Error::AlertReceived(_) => format!(
                "no encrypted connection ({error}): the camera has to offer TLS 1.2 or newer with a \
                 cipher of ECDHE; update it"
            ),
            other => format!("no encrypted connection ({other})"),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let fingerprint = Fingerprint::from(Sha256::digest(certificate));
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(fingerprint);
        let refused = Err(Error::InvalidCertificate(
            CertificateError::ApplicationVerificationFailure,
        ));
        match (&self.trust, &self.by_authorities) {
            (Trust::Anything, _) => Ok(ServerCertVerified::assertion()),
            (Trust::Pinned(pinned), _) if *pinned == fingerprint => Ok(ServerCertVerified::assertion()),
            (Trust::Authorities(_), Some(by_authorities)) => {
                by_authorities.verify_server_cert(certificate, intermediates, name, ocsp, now)
            }
            _ => refused,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Old cameras have certificates that cannot even be read.
        if self.trust == Trust::Anything {
            return Ok(HandshakeSignatureValid::assertion());
        }
        crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.trust == Trust::Anything {
            return Ok(HandshakeSignatureValid::assertion());
        }
        crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// 128 random bits as digits, from the source of keys.
///
/// # Errors
/// The system has none.
pub(in super::super) fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(hexadecimal(&bytes))
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn trust(scheme: &str, options: &[(&str, Value)]) -> Result<Trust, String> {
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()));
        Trust::of(scheme, &Settings(options.collect()))
    }

    #[test]
    fn fingerprints_are_read_as_tools_print_them() {
        let digits = "0123456789abcdef".repeat(4);
        let pairs: Vec<String> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        let by_openssl = format!("SHA256 Fingerprint={}", pairs.join(":"));
        let expected = fingerprint_of(&format!("sha256:{digits}")).unwrap();
        assert_eq!(expected[..3], [0x01, 0x23, 0x45]);
        for text in [
            by_openssl,
            format!("SHA-256:{digits}"),
            format!(" sha256:{} ", pairs.join(":")),
        ] {
            assert_eq!(fingerprint_of(&text), Some(expected), "{text}");
        }
        for text in [
            "",
            "sha256:",
            "sha256:zz",
            &digits,
            &format!("sha256:{digits}0"),
            &format!("md5:{digits}"),
        ] {
            let option = ("tls_fingerprint", Value::Text((*text).to_owned()));
            assert!(
                trust("rtsps", &[option]).unwrap_err().contains("64 hexadecimal"),
                "{text}"
            );
        }
        let wide = format!("sha256:{}é", &digits[..62]);
        assert_eq!(fingerprint_of(&wide), None);
    }

    #[test]
    fn certificates_are_verified_unless_that_is_declined() {
        assert_eq!(trust("rtsps", &[]), Ok(Trust::Authorities(None)));
        assert_eq!(
            trust("rtsps", &[("tls_verify", Value::Flag(false))]),
            Ok(Trust::Anything)
        );
        let pinned = Value::Text(format!("sha256:{}", "0".repeat(64)));
        let both = [
            ("tls_verify", Value::Flag(false)),
            ("tls_fingerprint", pinned.clone()),
        ];
        assert_eq!(trust("rtsps", &both), Ok(Trust::Pinned([0; 32])));
        for scheme in ["https", "rtsp"] {
            assert!(
                trust(scheme, &[("tls_fingerprint", pinned.clone())])
                    .unwrap_err()
                    .contains("rtsps")
            );
        }
    }

    #[test]
    fn files_without_certificates_are_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "nothing").unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        for path in [path, "/".to_owned(), "/no/such/file".to_owned()] {
            let error = Verifier::new(&Trust::Authorities(Some(path.clone()))).unwrap_err();
            assert!(error.contains(&path), "{error}");
        }
    }
}
