//! Trusted authorities, and the certificate of the client.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Encryption of connections.
pub type TlsConfig = Arc<ClientConfig>;

/// Bytes of a file of certificates: all authorities of a system have a quarter of that.
const MAX_BYTES: u64 = 1 << 20;

/// Believes the authorities in the file `ca`, else those of the system, and shows a certificate with its key. All are PEM.
///
/// # Errors
/// A file cannot be read, or holds something else.
pub fn tls(ca: Option<&Path>, client: Option<(&Path, &Path)>) -> Result<TlsConfig, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| {
                    format!(
                        "{}: it holds no certificate of an authority: {error}",
                        path.display()
                    )
                })?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("this system has no certificates of authorities".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| {
                format!(
                    "{}: it does not go with {}: {error}",
                    certificate.display(),
                    key.display()
                )
            })?,
    };
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = weir_files::read(path, MAX_BYTES);
    bytes.map_err(|error| format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    certificates
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .ok_or_else(|| format!("{}: it holds no certificate as PEM", path.display()))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|_| {
        format!(
            "{}: it holds no private key as PEM that needs no password",
            path.display()
        )
    })
}
