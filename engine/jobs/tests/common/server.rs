//! A real nats-server on loopback.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_jobs::QueuePlace;

const SERVER: &str = "/usr/sbin/nats-server";

pub(crate) struct Server {
    port: u16,
    child: Child,
}

impl Server {
    /// One that keeps what it is given in the folder; `None` where it is not installed.
    pub(crate) fn start(folder: &Path, options: &[&str]) -> Option<Self> {
        if !Path::new(SERVER).exists() {
            println!("skipped: there is no {SERVER}");
            return None;
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(SERVER);
        command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]);
        command
            .arg(folder.join("store"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        Some(Self { port, child })
    }

    /// The queue `jobs` on it.
    pub(crate) fn place(&self) -> QueuePlace {
        QueuePlace::of(&PathBuf::from(format!("nats://127.0.0.1:{}/jobs", self.port))).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
