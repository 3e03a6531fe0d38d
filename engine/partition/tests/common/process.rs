//! Workers in processes of their own. The test's own program serves as the worker's.

#![allow(clippy::print_stdout, reason = "a process says where it listens")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A process, killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Process {
    /// This program once more, running one of its tests with a variable set to `at`, which listens there.
    pub(crate) fn start([test, variable]: [&str; 2], at: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, at)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines.map(Result::unwrap).find_map(|line| {
            let (_, address) = line.split_once("listening on ")?;
            Some(address.parse().unwrap())
        });
        Self {
            child,
            address: address.expect("it says where it listens"),
        }
    }
}

/// Body of such a process once its worker listens: prints the address and waits to be killed.
pub(crate) fn park(address: impl std::fmt::Display) -> ! {
    println!("listening on {address}");
    loop {
        std::thread::park();
    }
}
