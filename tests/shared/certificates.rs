//! Certificates that the program `openssl` makes, for tests of several crates.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with the authorities `ca` and `stranger`, and what the first has signed: `NAME.pem` and `NAME.key` of each.
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    /// Signs each name with its extension; `None` where there is no `openssl`.
    pub(crate) fn make(folder: &Path, signed: &[(&str, &str)]) -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            println!("skipped: there is no openssl");
            return None;
        }
        let certificates = Self(folder.to_owned());
        for authority in ["ca", "stranger"] {
            certificates.run(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={authority} -keyout {authority}.key -out {authority}.pem"
            ));
        }
        for (name, extension) in signed {
            certificates.run(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
            ));
            std::fs::write(certificates.file("extension"), extension).unwrap();
            certificates.run(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extension -out {name}.pem"
            ));
        }
        Some(certificates)
    }

    fn run(&self, command: &str) {
        let mut openssl = Command::new("openssl");
        openssl.args(command.split_whitespace()).current_dir(&self.0);
        let output = openssl.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {command}: {said}");
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }
}
