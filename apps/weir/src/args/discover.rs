//! Arguments of `weir discover`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::Args as Group;
use weir_types::Span;

use super::values::{duration, host_and_port};
use crate::discover::NamedDevice;

/// `weir discover`.
#[derive(Debug, Group)]
pub(crate) struct Discover {
    /// Cameras to ask, as HOST, HOST:PORT or http://HOST:PORT/PATH; without an address, the networks of this machine are searched
    #[arg(value_name = "ADDRESS")]
    pub(crate) addresses: Vec<NamedDevice>,
    /// IPv4 address of the one interface of this machine to search on [default: all interfaces]
    #[arg(long, value_name = "ADDR", conflicts_with = "addresses")]
    pub(crate) interface: Option<Ipv4Addr>,
    /// Time to wait for answers to the search
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "3s")]
    pub(crate) wait: Span,
    /// User of the cameras. The password is sent as a digest, to every camera that is asked
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// Print all details as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the cameras as tables for a graph; they name the user and the file with the password
    #[arg(long, conflicts_with = "json")]
    pub(crate) toml: bool,
}

impl std::str::FromStr for NamedDevice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "write HOST, HOST:PORT or http://HOST:PORT/PATH";
        let (scheme, rest) = text.split_once("://").unwrap_or(("onvif", text));
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "onvif" => {}
            "https" => return Err("cameras are asked over http only: write http://HOST:PORT/PATH"),
            _ => return Err(bad),
        }
        if rest.contains('@') {
            return Err("leave user and password out: --user and --password-file are for them");
        }
        let (place, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(&rest[at..])),
            None => (rest, None),
        };
        let path = path.filter(|path| *path != "/");
        let (host, port) = host_and_port(place).ok_or(bad)?;
        let is_host = host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:%".contains(c));
        let is_path = path.is_none_or(weir_flow::is_service_path);
        if !is_host || !is_path || port == Some(0) {
            return Err(bad);
        }
        Ok(Self {
            host,
            port,
            path: path.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_devices() {
        let check = |text: &str, host: &str, port: Option<u16>, path: Option<&str>| {
            let (host, path) = (host.to_owned(), path.map(str::to_owned));
            assert_eq!(text.parse(), Ok(NamedDevice { host, port, path }), "{text}");
        };
        check("cam.local", "cam.local", None, None);
        check("10.0.0.7:8000", "10.0.0.7", Some(8_000), None);
        check("[fe80::1]:80", "fe80::1", Some(80), None);
        check("onvif://10.0.0.7", "10.0.0.7", None, None);
        check("HTTP://10.0.0.7/", "10.0.0.7", None, None);
        check("http://10.0.0.7:81/a?b", "10.0.0.7", Some(81), Some("/a?b"));
        for bad in [
            "",
            "https://10.0.0.7",
            "rtsp://10.0.0.7",
            "ada:secret@10.0.0.7",
            "10.0.0.7:0",
            "10.0.0.7:x",
            "http:///a",
            "a b",
            "a\u{1b}[31m",
            "http://a/b c",
        ] {
            assert!(bad.parse::<NamedDevice>().is_err(), "{bad:?}");
        }
    }
}
