//! An authority for a fleet, and a certificate for each of its nodes.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

use crate::error::FabricError;
use crate::identity::is_name;
use crate::settings::Certificates;

/// Years that certificates are good for.
const YEARS: i32 = 10;
/// Seconds of a year in the mean.
const SECONDS_PER_YEAR: u64 = 31_556_952;
/// Bytes of a file of the authority: a few hundred.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A node that gets a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeNames {
    /// Name of the node in the fleet.
    pub node: String,
    /// Host names and addresses under which others connect to the node; if empty, its name.
    pub hosts: Vec<String>,
}

/// Writes a certificate and a key for each node into a folder, signed by the authority of that folder, which
/// is created if missing. Existing files are kept: if one of them is in the way, nothing is written. All
/// files are readable only by their owner. Returns the files that were written.
///
/// # Errors
/// [`FabricError`] for invalid names, files that are in the way, and files that cannot be written.
pub fn make_keys(folder: &Path, fleet: &str, nodes: &[NodeNames]) -> Result<Vec<PathBuf>, FabricError> {
    for node in nodes {
        if !is_name(&node.node) || is_reserved(&node.node) {
            return Err(FabricError::Name {
                what: "node",
                name: node.node.clone(),
            });
        }
    }
    let files = |node: &NodeNames| Certificates::in_folder(folder, &node.node);
    for path in nodes
        .iter()
        .map(files)
        .flat_map(|files| [files.certificate, files.key])
    {
        if path.exists() {
            return Err(FabricError::Exists(path));
        }
    }
    let mut made = Vec::new();
    let (issuer, authority) = authority(folder, fleet)?;
    for node in nodes {
        let (certificate, key) = signed(node, &issuer)?;
        let files = files(node);
        made.push((files.certificate, certificate));
        made.push((files.key, key));
    }
    create_folder(folder)?;
    let mut written = Vec::new();
    for (path, text) in authority.into_iter().chain(made) {
        write_new(&path, &text)?;
        written.push(path);
    }
    Ok(written)
}

/// Names of files that are not those of a node.
fn is_reserved(name: &str) -> bool {
    name == "authority"
}

/// Texts by the files that they are to be written to.
type NewFiles = Vec<(PathBuf, String)>;

/// Authority of a folder, and its files if they still have to be written.
fn authority(folder: &Path, fleet: &str) -> Result<(Issuer<'static, KeyPair>, NewFiles), FabricError> {
    let (certificate, key) = (folder.join("authority.pem"), folder.join("authority.key"));
    if certificate.exists() || key.exists() {
        let wrong = |reason: String| FabricError::Certificate {
            path: key.clone(),
            reason,
        };
        let pair = KeyPair::from_pem(&read(&key)?).map_err(|error| wrong(error.to_string()))?;
        let issuer = Issuer::from_ca_cert_pem(&read(&certificate)?, pair);
        return Ok((issuer.map_err(|error| wrong(error.to_string()))?, Vec::new()));
    }
    let name = format!("{fleet} authority");
    let failed = |error: rcgen::Error| FabricError::Make {
        name: name.clone(),
        reason: error.to_string(),
    };
    let pair = KeyPair::generate().map_err(failed)?;
    let mut params = params(&name, Vec::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let signed = params.self_signed(&pair).map_err(failed)?;
    let files = vec![(certificate, signed.pem()), (key, pair.serialize_pem())];
    Ok((Issuer::new(params, pair), files))
}

/// Certificate and key of a node, as PEM.
fn signed(node: &NodeNames, issuer: &Issuer<'_, KeyPair>) -> Result<(String, String), FabricError> {
    let failed = |error: rcgen::Error| FabricError::Make {
        name: node.node.clone(),
        reason: error.to_string(),
    };
    let hosts = if node.hosts.is_empty() {
        vec![node.node.clone()]
    } else {
        node.hosts.clone()
    };
    let pair = KeyPair::generate().map_err(failed)?;
    let mut params = params(&node.node, hosts).map_err(failed)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&pair, issuer).map_err(failed)?;
    Ok((certificate.pem(), pair.serialize_pem()))
}

fn params(name: &str, hosts: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let year = this_year();
    // The certificate is valid from last year on, since clocks differ.
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + YEARS, 12, 31);
    Ok(params)
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates are good for years of the calendar"
)]
fn this_year() -> i32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    1970 + i32::try_from(since.as_secs() / SECONDS_PER_YEAR).unwrap_or(0)
}

fn read(path: &Path) -> Result<String, FabricError> {
    let wrong = |reason: String| FabricError::Certificate {
        path: path.to_owned(),
        reason,
    };
    let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if metadata.len() > MAX_FILE_BYTES {
        return Err(wrong("it is too large for a certificate or a key".to_owned()));
    }
    fs::read_to_string(path).map_err(|error| wrong(error.to_string()))
}

fn create_folder(folder: &Path) -> Result<(), FabricError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| FabricError::Write {
        path: folder.to_owned(),
        reason: error.to_string(),
    })
}

/// Writes a new file that only its owner can read.
fn write_new(path: &Path, text: &str) -> Result<(), FabricError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => FabricError::Exists(path.to_owned()),
        _ => FabricError::Write {
            path: path.to_owned(),
            reason: error.to_string(),
        },
    });
    let failed = |error: std::io::Error| FabricError::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut file = opened?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn node(name: &str) -> NodeNames {
        NodeNames {
            node: name.to_owned(),
            hosts: vec!["127.0.0.1".to_owned()],
        }
    }

    #[test]
    fn keys_are_for_their_owner_and_are_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("keys");
        let written = make_keys(&folder, "site", &[node("north"), node("south")]).unwrap();
        assert_eq!(written.len(), 6);
        for path in &written {
            let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
        }
        assert!(Certificates::in_folder(&folder, "north").check().is_ok());
        let before: Vec<String> = written
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let again = make_keys(&folder, "site", &[node("west"), node("north")]);
        assert!(matches!(again, Err(FabricError::Exists(_))));
        assert!(!folder.join("west.pem").exists(), "nothing is written");
        // Another node of the same authority.
        assert_eq!(make_keys(&folder, "site", &[node("west")]).unwrap().len(), 2);
        let after: Vec<String> = written
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        assert_eq!(before, after);
    }

    #[test]
    fn names_that_are_others_files_are_refused() {
        let place = tempfile::tempdir().unwrap();
        for bad in ["authority", "../north", ""] {
            let made = make_keys(place.path(), "site", &[node(bad)]);
            assert!(matches!(made, Err(FabricError::Name { .. })), "{bad}");
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
