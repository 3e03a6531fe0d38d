//! Questions to the device service: its clock, and the addresses of its other services.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::deadline::wall_time;
use super::soap::{Client, Problem};
use super::xml::Element;

/// Namespace of the device service.
pub const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";

/// Namespace of the media service that all devices have.
pub const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";

/// Namespace of the newer media service, which knows H.265.
pub const MEDIA_2: &str = "http://www.onvif.org/ver20/media/wsdl";

/// Namespace of types that services share.
pub const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// Seconds by which the clock of the device is ahead; `None` if it does not name its time. It is asked without a token, which the
/// clock is needed for.
///
/// # Errors
/// A [`Problem`].
pub fn clock(client: &mut Client, path: &str) -> Result<Option<i64>, Problem> {
    let request = format!("<GetSystemDateAndTime xmlns=\"{DEVICE}\"/>");
    let answer = client.call_without_token(path, &request)?;
    Ok(utc(&answer).map(|time| difference(time, wall_time())))
}

/// The time in an answer to `GetSystemDateAndTime`.
fn utc(answer: &Element) -> Option<SystemTime> {
    let time = answer.at(&["SystemDateAndTime", "UTCDateTime"])?;
    let number = |path: [&str; 2]| time.text_at(&path)?.parse::<u32>().ok();
    let text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        number(["Date", "Year"])?,
        number(["Date", "Month"])?,
        number(["Date", "Day"])?,
        number(["Time", "Hour"])?,
        number(["Time", "Minute"])?,
        number(["Time", "Second"])?
    );
    humantime::parse_rfc3339(&text).ok()
}

/// `to - from` in seconds, rounded.
fn difference(to: SystemTime, from: SystemTime) -> i64 {
    let seconds = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_secs_f64()
    };
    (seconds(to) - seconds(from)).round() as i64
}

/// Addresses of services by their namespaces, as a device names them.
#[derive(Debug, Default)]
pub struct Services(Vec<(String, String)>);

impl Services {
    /// The address of the service of that namespace.
    #[must_use]
    pub fn address(&self, namespace: &str) -> Option<&str> {
        let mut known = self.0.iter();
        let known = known.find(|(of, _)| of == namespace);
        known.map(|(_, address)| address.as_str())
    }
}

/// The services of a device; none where it does not list them, as devices of before 2011.
///
/// # Errors
/// A [`Problem`] other than a refused request.
pub fn services(client: &mut Client, path: &str) -> Result<Services, Problem> {
    let request =
        format!("<GetServices xmlns=\"{DEVICE}\"><IncludeCapability>false</IncludeCapability></GetServices>");
    let answer = match client.call(path, &request) {
        Ok(answer) => answer,
        Err(Problem::Fault(_)) => return Ok(Services::default()),
        Err(problem) => return Err(problem),
    };
    let listed = answer.all("Service").filter_map(|service| {
        let text = |name: &str| service.text_at(&[name]).map(str::to_owned);
        Some((text("Namespace")?, text("XAddr")?))
    });
    Ok(Services(listed.collect()))
}

/// The address of a service by the category of its capabilities, such as `Events`.
///
/// # Errors
/// A [`Problem`].
pub fn capability(client: &mut Client, path: &str, category: &str) -> Result<Option<String>, Problem> {
    let request =
        format!("<GetCapabilities xmlns=\"{DEVICE}\"><Category>{category}</Category></GetCapabilities>");
    let answer = client.call(path, &request)?;
    let address = answer.text_at(&["Capabilities", category, "XAddr"]);
    Ok(address.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    #[test]
    fn times_are_read_and_compared() {
        let answer = |year: &str| {
            let text = format!(
                "<A><SystemDateAndTime><UTCDateTime><Time><Hour>23</Hour><Minute>59</Minute><Second>58</Second></Time><Date><Year>\
                 {year}</Year><Month>11</Month><Day>30</Day></Date></UTCDateTime></SystemDateAndTime></A>"
            );
            utc(&parse(&text).unwrap())
        };
        let time = answer("2026").unwrap();
        assert_eq!(
            difference(time, humantime::parse_rfc3339("2026-12-01T00:00:00Z").unwrap()),
            -2
        );
        assert!(answer("1970").is_some());
        for bad in ["1969", "20260", "x", "-5", "0"] {
            assert_eq!(answer(bad), None, "{bad}");
        }
    }
}
