//! Encrypted connections to brokers: whose certificates are believed, and which one is shown.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use weir_flow::{KeyKind, KeySpec, Settings, SinkError};

use super::secret::bounded_file;
use super::target::failed;

pub(super) const TLS: KeySpec = KeySpec {
    name: "tls",
    kind: KeyKind::Flag,
    about: "encrypts the connection; default true if one of the files below is set, else false",
};

pub(super) const CA_FILE: KeySpec = KeySpec {
    name: "ca_file",
    kind: KeyKind::File,
    about: "certificates of the trusted authorities, as PEM (default those of the system)",
};

pub(super) const CERTIFICATE_FILE: KeySpec = KeySpec {
    name: "certificate_file",
    kind: KeyKind::File,
    about: "client certificate, as PEM; needs `key_file`",
};

pub(super) const KEY_FILE: KeySpec = KeySpec {
    name: "key_file",
    kind: KeyKind::File,
    about: "private key of that certificate, as PEM without a password",
};

/// Bytes of a file of certificates: all authorities of a system have a quarter of that.
const MAX_BYTES: u64 = 1 << 20;

/// Files that `settings` name.
#[derive(Debug, Clone, Copy)]
pub(super) struct TlsFiles<'a> {
    pub(super) ca: Option<&'a Path>,
    /// A certificate and its key.
    pub(super) client: Option<(&'a Path, &'a Path)>,
}

/// Reads the files for TLS from `settings`; `None` if the connection is not encrypted.
///
/// # Errors
/// Keys contradict each other.
pub(super) fn tls_files(settings: &Settings) -> Result<Option<TlsFiles<'_>>, SinkError> {
    let contradiction = |reason: String| SinkError {
        target: "over an encrypted connection".to_owned(),
        reason,
    };
    let file = |key: &str| {
        let path = settings.text(key).filter(|path| !path.is_empty());
        path.map(Path::new)
    };
    let keys = ["ca_file", "certificate_file", "key_file"];
    let named = keys.into_iter().find(|key| file(key).is_some());
    if !settings.flag("tls", named.is_some()) {
        return match named {
            None => Ok(None),
            Some(key) => Err(contradiction(format!(
                "`{key}` is of no use with `tls = false`: leave one of them out"
            ))),
        };
    }
    let client = match (file("certificate_file"), file("key_file")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        _ => {
            return Err(contradiction(
                "`certificate_file` and `key_file` need each other: name both".to_owned(),
            ));
        }
    };
    Ok(Some(TlsFiles {
        ca: file("ca_file"),
        client,
    }))
}

/// TLS configuration from `settings`; `None` if connections are not encrypted.
///
/// # Errors
/// Keys contradict each other, or a file holds no certificate or key.
pub(super) fn tls_config(settings: &Settings) -> Result<Option<Arc<ClientConfig>>, SinkError> {
    tls_files(settings)?.map(client_config).transpose()
}

/// TLS configuration by files.
///
/// # Errors
/// A file holds no certificate or key.
pub(super) fn client_config(files: TlsFiles<'_>) -> Result<Arc<ClientConfig>, SinkError> {
    let unusable = |error: rustls::Error| SinkError {
        target: "over an encrypted connection".to_owned(),
        reason: error.to_string(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots(files.ca)?);
    let config = match files.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| {
                failed(
                    certificate,
                    format!("it does not go with {}: {error}", key.display()),
                )
            })?,
    };
    Ok(Arc::new(config))
}

/// The authorities in a file, each of which can be one.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(super) fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    roots(Some(path))?;
    certificates(path)
}

/// The authorities that are believed.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, SinkError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| {
                    failed(path, format!("it holds no certificate of an authority: {error}"))
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(SinkError {
            target: "over an encrypted connection".to_owned(),
            reason: "this system has no certificates of authorities: name some by `ca_file`".to_owned(),
        });
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SinkError> {
    let pem = bounded_file(path, MAX_BYTES)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(failed(path, "it holds no certificate as PEM")),
        Err(error) => Err(failed(path, format!("it holds no certificate as PEM: {error}"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SinkError> {
    let pem = bounded_file(path, MAX_BYTES)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| failed(path, "it holds no private key as PEM that needs no password"))
}

/// Why a connection failed, with what to do about certificates.
pub(super) fn explained(reason: &str) -> String {
    let hint = if reason.contains("UnknownIssuer") {
        "; name the authority that signed its certificate by `ca_file`"
    } else if ["CertificateRequired", "BadCertificate", "HandshakeFailure"]
        .iter()
        .any(|alert| reason.contains(alert))
    {
        "; it may ask for a certificate: name one by `certificate_file` and `key_file`"
    } else if reason.contains("NotValidForName") || reason.contains("not valid for name") {
        "; name it as its certificate does"
    } else {
        ""
    };
    format!("{reason}{hint}")
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    fn error(keys: &[(&str, Value)]) -> String {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let config = tls_config(&Settings(keys.collect()));
        config.expect_err("no configuration").to_string()
    }

    #[test]
    fn files_that_cannot_be_used_are_refused_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("broker.pem");
        std::fs::write(&path, "no certificate\n").expect("written");
        let path = Value::Text(path.display().to_string());
        assert!(error(&[("ca_file", path.clone())]).contains("broker.pem"));
        assert!(error(&[("certificate_file", path.clone())]).contains("need each other"));
        let off = Value::Flag(false);
        assert!(error(&[("ca_file", path), ("tls", off)]).contains("`tls = false`"));
        let plain = tls_config(&Settings::default()).expect("nothing is asked for");
        assert!(plain.is_none());
    }
}
