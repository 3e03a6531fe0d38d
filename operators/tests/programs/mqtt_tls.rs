//! A real broker that encrypts, and asks for certificates; certificates are made here, by the program `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_flow::Value;

use crate::delivered::{check, dead_letters, open, reasons, send, text, wait};
use crate::mqtt::{Broker, free_port};

/// An authority, and certificates that it signed.
struct Certificates(PathBuf);

impl Certificates {
    /// `None` where there is no `openssl`.
    fn new(folder: &Path) -> Option<Self> {
        let certificates = Self(folder.to_owned());
        if Command::new("openssl").arg("version").output().is_err() {
            println!("skipped: there is no openssl");
            return None;
        }
        certificates.authority("ca");
        certificates.authority("stranger");
        certificates.sign("broker", "subjectAltName=IP:127.0.0.1");
        certificates.sign("weir", "basicConstraints=CA:FALSE");
        Some(certificates)
    }

    fn run(&self, command: &str) {
        let mut openssl = Command::new("openssl");
        openssl.args(command.split_whitespace()).current_dir(&self.0);
        let output = openssl.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {command}: {said}");
    }

    fn authority(&self, name: &str) {
        self.run(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
    }

    fn sign(&self, name: &str, extension: &str) {
        self.run(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        std::fs::write(self.0.join("extension"), extension).unwrap();
        self.run(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extension -out {name}.pem"
        ));
    }

    fn file(&self, name: &str) -> Value {
        text(self.0.join(name).to_str().unwrap())
    }
}

#[test]
fn a_broker_that_encrypts_is_believed_by_its_authority_and_believes_by_ours() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::new(folder.path()) else {
        return;
    };
    let port = free_port();
    let at = folder.path().display();
    let listener = format!(
        "listener {port} 127.0.0.1\ncafile {at}/ca.pem\ncertfile {at}/broker.pem\nkeyfile {at}/broker.key\n\
         require_certificate true\n"
    );
    let Some(broker) = Broker::with(folder.path(), &listener) else {
        return;
    };
    let mut watcher = broker.watch();
    let path = folder.path().join("undelivered.jsonl");
    let open_with = |keys: &[(&str, Value)]| {
        let mut all = vec![
            ("host", text("127.0.0.1")),
            ("port", Value::Number(f64::from(port))),
            ("path", text(path.to_str().unwrap())),
        ];
        all.extend_from_slice(keys);
        open("mqtt", &all)
    };
    let certificate = [
        ("certificate_file", certificates.file("weir.pem")),
        ("key_file", certificates.file("weir.key")),
    ];
    let ca = |name: &str| ("ca_file", certificates.file(name));

    let mut mqtt = open_with(&[ca("ca.pem"), certificate[0].clone(), certificate[1].clone()]);
    send(&mut *mqtt, 40);
    let counts = wait(&*mqtt, |_| {});
    assert_eq!(counts["delivered"], 40, "{counts:?}");
    mqtt.finish().unwrap();
    watcher.run_until(|watcher| watcher.taken.len() >= 40);
    check(40, &watcher.taken, &dead_letters(&path));

    let refused = |keys: &[(&str, Value)], expected: &str| {
        let mut keys = keys.to_vec();
        keys.push(("give_up_after", Value::Number(0.05)));
        let mut mqtt = open_with(&keys);
        send(&mut *mqtt, 1);
        wait(&*mqtt, |_| {});
        mqtt.finish().unwrap();
        let reasons = reasons(&path);
        assert!(reasons[0].contains(expected), "{reasons:?}");
        std::fs::remove_file(&path).unwrap();
    };
    // A stranger that says to be the broker, and us without a certificate.
    refused(
        &[ca("stranger.pem"), certificate[0].clone(), certificate[1].clone()],
        "`ca_file`",
    );
    refused(&[ca("ca.pem")], "`certificate_file`");
    // It is not spoken to in clear.
    refused(&[], &format!("127.0.0.1:{port}"));
}
