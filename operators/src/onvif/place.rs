//! A camera that a graph names by the address of its device service, with the login of its source.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use weir_flow::{
    SourceLogin, has_login, host_problem, mask_credentials, service_path_problem, with_small_scheme,
};

use super::device::{self, Services};
use super::soap::{Client, Login, Problem};
use super::text::{clean, parts};
use crate::media::user_and_password;

/// Path of the device service where an address has none.
const SERVICE: &str = "/onvif/device_service";

/// Place of user and password for messages.
const LOGIN_KEYS: &str = "`user` and `password_file` of the source";

/// Longest time for the questions before the camera is used, and for each answer.
const SETUP_TIME: Duration = Duration::from_secs(8);
const ANSWER_TIME: Duration = Duration::from_secs(4);

/// See the module. Its name is resolved, and the file with its password read, each time that it is connected.
#[derive(Clone)]
pub(crate) struct Camera {
    host: String,
    port: u16,
    path: String,
    /// Address of the source, which may contain a user.
    uri: String,
    login: Option<SourceLogin>,
}

impl std::fmt::Debug for Camera {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Camera({})", self.name())
    }
}

/// A camera that answers.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) device: SocketAddr,
    /// Path of the device service.
    pub(crate) path: String,
    login: Option<Login>,
    clock_offset: i64,
    /// Services that the camera lists, once it was asked.
    services: Option<Services>,
}

impl Camera {
    /// The camera at `address`, whose source is at `uri` with that login.
    ///
    /// # Errors
    /// The reason why the address cannot be used, without its secrets.
    pub(crate) fn new(address: &str, uri: &str, login: Option<&SourceLogin>) -> Result<Self, String> {
        let small = with_small_scheme(address);
        let shown = || clean(&mask_credentials(address));
        if !small.starts_with("http://") {
            return Err(format!("{} is not http://HOST/onvif/device_service", shown()));
        }
        if let Some((problem, _)) = host_problem(&small).or_else(|| service_path_problem(&small)) {
            return Err(format!("{} {problem}", shown()));
        }
        if has_login(&small) {
            let hint = "`user` and `password_file` of the source are for them";
            return Err(format!("{} contains a user: {hint}", shown()));
        }
        let (host, port, path) = parts(&small).ok_or_else(|| format!("{} is not an address", shown()))?;
        Ok(Self {
            host,
            port,
            path: if path == "/" { SERVICE.to_owned() } else { path },
            uri: uri.to_owned(),
            login: login.cloned(),
        })
    }

    /// Host and port for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Finds the camera, and asks its clock, which tokens go by.
    ///
    /// # Errors
    /// A [`Problem`].
    pub(crate) fn connect(&self) -> Result<Connected, Problem> {
        let login = user_and_password(&self.uri, self.login.as_ref()).map_err(Problem::Login)?;
        let login = login.map(|(name, password)| Login { name, password });
        let host = self.host.as_str();
        let found = (host, self.port).to_socket_addrs();
        let found = found.map_err(|error| Problem::Unreached(format!("{host} is not found: {error}")))?;
        let found: Vec<SocketAddr> = found.collect();
        let four = found.iter().find(|address| address.is_ipv4());
        let no_address = || Problem::Unreached(format!("{host} has no address"));
        let device = *four.or(found.first()).ok_or_else(no_address)?;
        let mut client = Client::new(device, login.clone(), LOGIN_KEYS);
        client.limit(SETUP_TIME, ANSWER_TIME);
        let clock_offset = match device::clock(&mut client, &self.path) {
            Ok(offset) => offset.unwrap_or(0),
            Err(Problem::Fault(_)) => 0,
            Err(problem) => return Err(problem),
        };
        client.set_clock_offset(clock_offset);
        Ok(Connected {
            client,
            device,
            path: self.path.clone(),
            login,
            clock_offset,
            services: None,
        })
    }
}

impl Connected {
    /// A client of a service at another port of the camera.
    pub(crate) fn client_at(&self, port: u16) -> Client {
        let device = SocketAddr::new(self.device.ip(), port);
        let mut client = Client::new(device, self.login.clone(), LOGIN_KEYS);
        client.limit(SETUP_TIME, ANSWER_TIME);
        client.set_clock_offset(self.clock_offset);
        client
    }

    /// Address of the service of a namespace, or of a category for devices that list no services; `None` if the camera has none.
    ///
    /// # Errors
    /// A [`Problem`] other than a refused request.
    pub(crate) fn service(&mut self, namespace: &str, category: &str) -> Result<Option<String>, Problem> {
        let listed = match self.services.take() {
            Some(listed) => listed,
            None => device::services(&mut self.client, &self.path)?,
        };
        let listed = self.services.insert(listed);
        if let Some(address) = listed.address(namespace) {
            return Ok(Some(address.to_owned()));
        }
        match device::capability(&mut self.client, &self.path, category) {
            Err(Problem::Fault(_)) => Ok(None),
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_cameras_are_http_without_a_user() {
        let camera = |address| Camera::new(address, "rtsp://h/1", None);
        for (address, name, path) in [
            ("http://cam/onvif/device_service", "cam:80", SERVICE),
            ("HTTP://10.0.0.7:8000", "10.0.0.7:8000", SERVICE),
            ("http://10.0.0.7/", "10.0.0.7:80", SERVICE),
            ("http://10.0.0.7/dev?x=1", "10.0.0.7:80", "/dev?x=1"),
        ] {
            let camera = camera(address).unwrap();
            assert_eq!((camera.name().as_str(), camera.path.as_str()), (name, path));
        }
        for bad in [
            "https://cam/onvif",
            "cam",
            "http://",
            "http://ada:s3cret@cam/onvif",
            "http://cam:99999/onvif",
            "http://cam/a b",
        ] {
            let reason = camera(bad).unwrap_err();
            assert!(!reason.contains("s3cret"), "{reason}");
        }
    }
}
