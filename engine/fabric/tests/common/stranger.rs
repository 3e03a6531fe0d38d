//! Ends of TLS that are no nodes.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use weir_fabric::Certificates;

/// The id that nodes of the fleet of the tests have.
pub(crate) fn id_of(node: &str) -> String {
    let digest = Sha256::digest(format!("weir/{}/{node}", super::FLEET));
    let mut id = digest[..16].to_vec();
    id[0] |= 0x80;
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Passes on what comes to the port that it returns by TLS to a port of a node, with or without a certificate.
pub(crate) fn tls_to(port: u16, authority: &Path, own: Option<&Certificates>) -> u16 {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match own {
        Some(files) => {
            let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
            let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let connector = TlsConnector::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own_port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let pass = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((mut from, _)) = listener.accept().await {
            let connector = connector.clone();
            tokio::spawn(async move {
                let to = TcpStream::connect(("127.0.0.1", port)).await?;
                let host = ServerName::try_from("127.0.0.1").unwrap();
                let mut to = connector.connect(host, to).await?;
                copy_bidirectional(&mut from, &mut to).await
            });
        }
    };
    std::thread::spawn(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(pass);
    });
    own_port
}
