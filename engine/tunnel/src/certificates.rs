//! TLS settings from files, and the identity in the certificate of a peer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::TunnelError;

/// PEM files of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificate of the authority that signed those of all nodes.
    pub authority: PathBuf,
    /// Certificate of this node, with those between it and the authority.
    pub certificate: PathBuf,
    /// Private key of this node.
    pub key: PathBuf,
}

/// Both ends of TLS, of one node.
pub(crate) struct Credentials {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) connector: TlsConnector,
}

impl Credentials {
    /// Reads the files.
    pub(crate) fn read(files: &CertificateFiles) -> Result<Self, TunnelError> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authority)? {
            roots
                .add(certificate)
                .map_err(|error| wrong(&files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, &error))?;
        Ok(Self {
            acceptor: acceptor(files, &provider, &roots, chain.clone(), key.clone_key())?,
            connector: connector(files, &provider, roots, chain, key)?,
        })
    }
}

fn wrong(path: &Path, reason: &dyn std::fmt::Display) -> TunnelError {
    TunnelError::Certificate {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TunnelError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| wrong(path, &error))?;
    if read.is_empty() {
        return Err(wrong(path, &"it holds no certificate"));
    }
    Ok(read)
}

fn acceptor(
    files: &CertificateFiles,
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsAcceptor, TunnelError> {
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider)).build();
    let verifier = verifier.map_err(|error| wrong(&files.authority, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(&[&TLS13]);
    let config = config.map_err(|error| wrong(&files.certificate, &error))?;
    let config = config
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| wrong(&files.key, &error))?;
    // Certificates are verified for each connection.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config).into())
}

fn connector(
    files: &CertificateFiles,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<TlsConnector, TunnelError> {
    let config = ClientConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(&[&TLS13]);
    let config = config.map_err(|error| wrong(&files.certificate, &error))?;
    let config = config
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| wrong(&files.key, &error))?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config).into())
}

/// Identity in a chain of certificates that TLS has verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Common name of the peer's own certificate.
    pub(crate) name: String,
    /// Seconds of Unix time after which a certificate of the chain is not valid any more.
    pub(crate) expires_s: i64,
}

impl Peer {
    /// Reads the chain. An error is a text for the log.
    pub(crate) fn read(chain: Option<&[CertificateDer<'_>]>) -> Result<Self, String> {
        let (mut name, mut expires_s) = (None, i64::MAX);
        for der in chain.unwrap_or_default() {
            let parsed = X509Certificate::from_der(der);
            let (_, certificate) =
                parsed.map_err(|error| format!("its certificate cannot be read: {error}"))?;
            expires_s = expires_s.min(certificate.validity().not_after.timestamp());
            if name.is_none() {
                let common = certificate.subject().iter_common_name().next();
                let text = common.and_then(|common| common.as_str().ok());
                name = Some(text.ok_or("its certificate has no name")?.to_owned());
            }
        }
        let name = name.ok_or("it showed no certificate")?;
        Ok(Self { name, expires_s })
    }
}
