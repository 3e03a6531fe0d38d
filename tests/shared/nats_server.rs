//! A real nats-server on loopback, which tests of several crates start.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "/usr/sbin/nats-server";

pub(crate) struct NatsServer {
    folder: PathBuf,
    port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl NatsServer {
    /// One that keeps what it is given in the folder, with further options; `None` where it is not installed.
    pub(crate) fn new(folder: &Path, options: &[&str]) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            println!("skipped: there is no {PROGRAM}");
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Self {
            folder: folder.to_owned(),
            port: free.local_addr().unwrap().port(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            child: None,
        };
        drop(free);
        server.start();
        Some(server)
    }

    /// Starts it again where it was, after [`NatsServer::kill`].
    pub(crate) fn start(&mut self) {
        let child = Command::new(PROGRAM)
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"])
            .arg(&self.folder)
            .args(&self.options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// By SIGKILL: it has no time to write anything.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
