//! Cameras of a network, and the addresses of their streams: a search by WS-Discovery, and questions by ONVIF.
//!
//! Devices are not trusted: their answers are bounded in bytes, depth and time, requests go to the address that was asked, passwords
//! leave this machine as digests only, and an address of a stream is used only if its host is that of the device.

mod address;
mod brands;
mod device;
mod facts;
mod interfaces;
mod probe;
mod report;
mod tables;
mod text;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weir_operators::onvif;

use crate::error::UserError;
use crate::graph_text::free_name;
use device::Target;
use facts::Device;
pub(crate) use facts::Found;
use probe::Answer;
pub(crate) use report::{as_json, as_text};
pub(crate) use tables::graph_tables;
pub(crate) use weir_operators::onvif::Login;

/// Devices that are asked at the same time.
const MAX_WORKERS: usize = 16;

/// Addresses that a user names.
pub(crate) const MAX_ADDRESSES: usize = 256;

/// Path of the device service of ONVIF.
const SERVICE: &str = "/onvif/device_service";

/// Port of HTTP.
const HTTP: u16 = 80;

/// A device that the user names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedDevice {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Path of its device service, if the user names it.
    pub(crate) path: Option<String>,
}

/// Searches the networks of this machine, and asks all devices that answer.
///
/// # Errors
/// A [`UserError`] where the question cannot be sent.
pub(crate) fn search(
    interface: Option<Ipv4Addr>,
    wait: Duration,
    login: Option<&Login>,
) -> Result<Found, UserError> {
    let interfaces = interface.map_or_else(interfaces::addresses, |address| vec![address]);
    if interfaces.is_empty() {
        let hint = "name the address of one with --interface, or the addresses of cameras";
        return Err(UserError::new(format!(
            "no network interface with an IPv4 address: {hint}"
        )));
    }
    let answers = probe::search(&interfaces, wait).map_err(|reason| {
        UserError::new(format!(
            "cannot search for cameras: {reason}; name an address of this machine with --interface, or the addresses of cameras"
        ))
    })?;
    let mut warnings = Vec::new();
    if answers.is_cut_off {
        warnings.push(format!(
            "more than {} devices, or too many answers: the rest was left out",
            probe::MAX_DEVICES
        ));
    }
    let targets: Vec<Target> = answers.answers.into_iter().map(target_of).collect();
    let devices = in_parallel(&targets, |target| device::ask(target, login));
    Ok(named(devices, warnings))
}

/// Asks the devices that a user names.
pub(crate) fn ask(named_devices: &[NamedDevice], wait: Duration, login: Option<&Login>) -> Found {
    let devices = in_parallel(named_devices, |named| match resolve(named) {
        Ok(host) => device::ask(&target_at(named, host, wait), login),
        Err(reason) => Device {
            address: named.host.clone(),
            warnings: vec![reason],
            ..Device::default()
        },
    });
    named(devices, Vec::new())
}

/// Address of a host; IPv4 is preferred, as cameras have it.
fn resolve(named: &NamedDevice) -> Result<IpAddr, String> {
    let addresses = (named.host.as_str(), named.port.unwrap_or(HTTP)).to_socket_addrs();
    let addresses: Vec<SocketAddr> = addresses
        .map_err(|error| format!("its address was not found: {error}"))?
        .collect();
    let four = addresses.iter().find(|address| address.is_ipv4());
    let address = four.or(addresses.first());
    address
        .map(SocketAddr::ip)
        .ok_or_else(|| "its name has no address".to_owned())
}

/// A named device; its port and its path are those that the user names, else those of its answer to a search, else the usual ones.
fn target_at(named: &NamedDevice, host: IpAddr, wait: Duration) -> Target {
    let answer = match &named.path {
        Some(_) => None,
        None => probe::ask(host, named.port, wait),
    };
    let (port, path) = service_of(answer.as_ref(), host);
    Target {
        name: named.host.clone(),
        device: SocketAddr::new(host, named.port.unwrap_or(port)),
        path: named.path.clone().unwrap_or(path),
        answer,
        is_named: true,
    }
}

fn target_of(answer: Answer) -> Target {
    let (port, path) = service_of(Some(&answer), answer.from);
    Target {
        name: answer.from.to_string(),
        device: SocketAddr::new(answer.from, port),
        path,
        answer: Some(answer),
        is_named: false,
    }
}

/// Port and path of the device service; an answer counts only for the host that it came from.
fn service_of(answer: Option<&Answer>, host: IpAddr) -> (u16, String) {
    let services = answer.iter().flat_map(|answer| &answer.services);
    let mut services = services.filter_map(|service| onvif::service(service));
    services
        .find(|(of, _, _)| *of == host.to_canonical())
        .map_or_else(|| (HTTP, SERVICE.to_owned()), |(_, port, path)| (port, path))
}

/// Results of a function, in the order of its inputs.
fn in_parallel<T: Sync, R: Send>(inputs: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..MAX_WORKERS.min(inputs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(input) = inputs.get(at) else {
                        return;
                    };
                    let result = work(input);
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Names all cameras, each in its own way.
fn named(mut devices: Vec<Device>, warnings: Vec<String>) -> Found {
    let mut taken = BTreeSet::new();
    for device in &mut devices {
        let several = device.cameras.len() > 1;
        let base = base_name(device);
        for (number, camera) in (1..).zip(&mut device.cameras) {
            let wanted = if several {
                format!("{base}-{number}")
            } else {
                base.clone()
            };
            camera.name = free_name(&wanted, &taken);
            taken.insert(camera.name.clone());
        }
    }
    Found { devices, warnings }
}

/// Name after that of the device, else its model, else its address.
fn base_name(device: &Device) -> String {
    let names = [&device.name, &device.model].into_iter().flatten();
    let mut names = names.map(|name| text::table_name(name));
    names
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| format!("camera-{}", text::table_name(&device.address)))
}

#[cfg(test)]
mod tests {
    use super::facts::Camera;
    use super::*;

    fn device(name: Option<&str>, cameras: usize) -> Device {
        Device {
            address: "10.0.0.7:80".to_owned(),
            name: name.map(str::to_owned),
            cameras: (0..cameras).map(|_| Camera::default()).collect(),
            ..Device::default()
        }
    }

    #[test]
    fn names_are_safe_and_unique() {
        let devices = vec![
            device(Some("Front Door"), 1),
            device(Some("front/door"), 1),
            device(Some("NVR"), 2),
            device(Some("\u{1b}"), 1),
            device(None, 1),
            device(Some("nvr-1"), 1),
        ];
        let found = named(devices, Vec::new());
        let cameras = found.devices.iter().flat_map(|device| &device.cameras);
        let names: Vec<&str> = cameras.map(|camera| camera.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "front-door",
                "front-door-2",
                "nvr-1",
                "nvr-2",
                "camera-10-0-0-7-80",
                "camera-10-0-0-7-80-2",
                "nvr-1-2"
            ]
        );
    }

    #[test]
    fn answers_count_for_their_own_host_only() {
        let answer = |services: &[&str]| Answer {
            services: services.iter().map(|&service| service.to_owned()).collect(),
            ..Answer::from_host([10, 0, 0, 7].into())
        };
        let host: IpAddr = [10, 0, 0, 7].into();
        for (services, expected) in [
            (
                vec!["http://10.0.0.8/a", "http://10.0.0.7:8000/b"],
                (8_000, "/b".to_owned()),
            ),
            (vec!["http://10.0.0.8/a"], (80, SERVICE.to_owned())),
            (vec![], (80, SERVICE.to_owned())),
        ] {
            assert_eq!(service_of(Some(&answer(&services)), host), expected);
        }
    }
}
