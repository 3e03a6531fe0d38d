//! Questions to one device by ONVIF: its clock, its name, and the addresses of its streams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::address;
use super::brands;
use super::deadline::wall_time;
use super::facts::{Camera, Device, Stream};
use super::probe::Answer;
use super::soap::{Client, Login, Problem};
use super::text::{clean, xml_escaped};
use super::xml::Element;

const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const MEDIA_2: &str = "http://www.onvif.org/ver20/media/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// Profiles of a device whose addresses are asked for.
const MAX_PROFILES: usize = 128;

/// Difference between clocks, in seconds, from which on it is a warning: tokens expire.
const MAX_CLOCK_DIFFERENCE: u64 = 5;

/// A device to ask.
#[derive(Debug)]
pub(super) struct Target {
    /// Host as the user wrote it, or the address that an answer came from.
    pub(super) name: String,
    pub(super) device: SocketAddr,
    /// Path of its device service.
    pub(super) path: String,
    /// Its answer to the search.
    pub(super) answer: Option<Answer>,
    /// True if the user named it.
    pub(super) is_named: bool,
}

/// Asks a device all there is to know for a graph.
pub(super) fn ask(target: &Target, login: Option<&Login>) -> Device {
    let mut device = Device {
        address: target.device.to_string(),
        endpoint: target.answer.as_ref().map(|answer| answer.endpoint.clone()),
        name: target.answer.as_ref().and_then(Answer::name),
        ..Device::default()
    };
    for other in target.answer.iter().flat_map(|answer| &answer.also_from) {
        device
            .warnings
            .push(format!("{other} answered with the same name; it was not asked"));
    }
    let asked = questions(target, login, &mut device);
    if let Err(problem) = &asked {
        device.warnings.push(problem.reason().to_owned());
    }
    // All brands would be listed for a device that only wants a login.
    let is_known = !device.answered || device.manufacturer.is_some();
    if device.cameras.is_empty() && target.is_named && is_known {
        hint(target, &mut device);
    }
    device
}

/// The questions, in their order. The first refused login ends them, since devices lock accounts.
fn questions(target: &Target, login: Option<&Login>, device: &mut Device) -> Result<(), Problem> {
    let mut client = Client::new(target.device, login);
    let difference = clock(&mut client, &target.path);
    device.answered = !matches!(difference, Err(Problem::Unreached(_)));
    match difference {
        Ok(seconds) => {
            device.clock_difference_s = seconds;
            client.set_clock_offset(seconds.unwrap_or(0));
        }
        Err(Problem::Fault(_)) => {}
        Err(problem) => return Err(problem),
    }
    let far = device
        .clock_difference_s
        .filter(|seconds| seconds.unsigned_abs() > MAX_CLOCK_DIFFERENCE);
    if let Some(seconds) = far {
        let side = if seconds > 0 { "ahead" } else { "behind" };
        device.warnings.push(format!(
            "its clock is {} s {side}: set it, or let it follow a time server",
            seconds.unsigned_abs()
        ));
    }
    match identity(&mut client, &target.path, device) {
        Err(Problem::Fault(_)) => {}
        Err(Problem::Login(_)) if login.is_none() => {}
        result => result?,
    }
    let services = services(&mut client, &target.path)?;
    let profiles = profiles(&mut client, &services)?;
    cameras(&mut client, target, profiles, device)
}

/// Seconds by which the clock of the device is ahead; `None` if it does not name its time.
fn clock(client: &mut Client<'_>, path: &str) -> Result<Option<i64>, Problem> {
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

/// Maker, model and version.
fn identity(client: &mut Client<'_>, path: &str, device: &mut Device) -> Result<(), Problem> {
    let request = format!("<GetDeviceInformation xmlns=\"{DEVICE}\"/>");
    let answer = client.call(path, &request)?;
    let text = |name: &str| answer.text_at(&[name]).map(clean);
    device.manufacturer = text("Manufacturer");
    device.model = text("Model");
    device.firmware = text("FirmwareVersion");
    device.serial = text("SerialNumber");
    Ok(())
}

/// Paths of the media services.
#[derive(Debug, Default, PartialEq)]
struct Services {
    media: Option<String>,
    media_2: Option<String>,
}

fn services(client: &mut Client<'_>, path: &str) -> Result<Services, Problem> {
    let request =
        format!("<GetServices xmlns=\"{DEVICE}\"><IncludeCapability>false</IncludeCapability></GetServices>");
    match client.call(path, &request) {
        Ok(answer) => {
            let found = listed(&answer);
            if found != Services::default() {
                return Ok(found);
            }
        }
        Err(Problem::Fault(_)) => {}
        Err(problem) => return Err(problem),
    }
    // Devices of before 2011 know this alone.
    let request = format!("<GetCapabilities xmlns=\"{DEVICE}\"><Category>Media</Category></GetCapabilities>");
    let answer = client.call(path, &request)?;
    let media = answer.text_at(&["Capabilities", "Media", "XAddr"]);
    let media = media.and_then(address::path);
    if media.is_none() {
        return Err(Problem::Fault(
            "it names no media service: it has no streams".to_owned(),
        ));
    }
    Ok(Services { media, media_2: None })
}

fn listed(answer: &Element) -> Services {
    let path = |namespace: &str| {
        let mut services = answer.all("Service");
        let service = services.find(|service| service.text_at(&["Namespace"]) == Some(namespace))?;
        address::path(service.text_at(&["XAddr"])?)
    };
    Services {
        media: path(MEDIA),
        media_2: path(MEDIA_2),
    }
}

/// A profile with a stream, before its address is known.
#[derive(Debug, PartialEq)]
struct Profile {
    token: String,
    /// Token of the picture that it shows.
    source: String,
    stream: Stream,
}

/// Profiles, and where their addresses are asked for.
struct Profiles {
    path: String,
    is_media_2: bool,
    profiles: Vec<Profile>,
}

/// Profiles of the newer media service, which knows H.265, else of the older one.
fn profiles(client: &mut Client<'_>, services: &Services) -> Result<Profiles, Problem> {
    let mut last = Problem::Fault("it has no profile with video".to_owned());
    for (path, is_media_2) in [(&services.media_2, true), (&services.media, false)] {
        let Some(path) = path else {
            continue;
        };
        let request = if is_media_2 {
            format!(
                "<GetProfiles xmlns=\"{MEDIA_2}\"><Type>VideoSource</Type><Type>VideoEncoder</Type></GetProfiles>"
            )
        } else {
            format!("<GetProfiles xmlns=\"{MEDIA}\"/>")
        };
        match client.call(path, &request) {
            Ok(answer) => {
                let profiles: Vec<Profile> = answer.all("Profiles").filter_map(profile).collect();
                if !profiles.is_empty() {
                    return Ok(Profiles {
                        path: path.clone(),
                        is_media_2,
                        profiles,
                    });
                }
            }
            Err(problem @ Problem::Login(_)) => return Err(problem),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

/// A profile of either media service; `None` without video.
fn profile(profile: &Element) -> Option<Profile> {
    let part = |names: [&str; 2]| {
        profile
            .at(&names[..1])
            .or_else(|| profile.at(&["Configurations", names[1]]))
    };
    let encoder = part(["VideoEncoderConfiguration", "VideoEncoder"])?;
    let source = part(["VideoSourceConfiguration", "VideoSource"]);
    let pixels = |name: &str| {
        let number = encoder.text_at(&["Resolution", name])?.parse::<u32>().ok()?;
        Some(number).filter(|number| (1..=65_535).contains(number))
    };
    let fps = encoder.text_at(&["RateControl", "FrameRateLimit"]);
    let fps = fps.and_then(|fps| fps.parse::<f64>().ok());
    Some(Profile {
        token: profile.token.clone(),
        source: source
            .and_then(|source| source.text_at(&["SourceToken"]))
            .unwrap_or_default()
            .to_owned(),
        stream: Stream {
            profile: clean(profile.text_at(&["Name"]).unwrap_or(&profile.token)),
            codec: encoder.text_at(&["Encoding"]).map(codec),
            width: pixels("Width"),
            height: pixels("Height"),
            fps: fps.filter(|fps| *fps > 0.0 && *fps <= 1_000.0),
            uri: String::new(),
        },
    })
}

/// Name of a codec in small letters.
fn codec(encoding: &str) -> String {
    match encoding.to_ascii_uppercase().as_str() {
        "JPEG" => "mjpeg".to_owned(),
        "MPV4-ES" => "mpeg4".to_owned(),
        other => clean(&other.to_ascii_lowercase()),
    }
}

/// Addresses of all profiles, by picture.
fn cameras(
    client: &mut Client<'_>,
    target: &Target,
    profiles: Profiles,
    device: &mut Device,
) -> Result<(), Problem> {
    let Profiles {
        path,
        is_media_2,
        profiles,
    } = profiles;
    if profiles.len() > MAX_PROFILES {
        let left_out = profiles.len() - MAX_PROFILES;
        device
            .warnings
            .push(format!("{left_out} more profiles were not asked for"));
    }
    // Pictures in the order of their first profiles.
    let mut places = BTreeMap::new();
    let mut result = Ok(());
    for profile in profiles.into_iter().take(MAX_PROFILES) {
        let answer = match client.call(&path, &stream_request(&profile.token, is_media_2)) {
            Ok(answer) => answer,
            Err(Problem::Fault(reason)) => {
                device
                    .warnings
                    .push(format!("profile {}: {reason}", profile.stream.profile));
                continue;
            }
            Err(problem) => {
                result = Err(problem);
                break;
            }
        };
        let uri = answer.text_at(&["MediaUri", "Uri"]).or(answer.text_at(&["Uri"]));
        match address::stream(uri.unwrap_or_default(), target.device.ip(), &target.name) {
            Ok(uri) => {
                let place = *places.entry(profile.source).or_insert(device.cameras.len());
                if place == device.cameras.len() {
                    device.cameras.push(Camera::default());
                }
                device.cameras[place].streams.push(Stream {
                    uri,
                    ..profile.stream
                });
            }
            Err(reason) => device.warnings.push(reason),
        }
    }
    for camera in &mut device.cameras {
        camera
            .streams
            .sort_by_key(|stream| std::cmp::Reverse(stream.pixels()));
    }
    result
}

fn stream_request(token: &str, is_media_2: bool) -> String {
    let token = xml_escaped(token);
    if is_media_2 {
        return format!(
            "<GetStreamUri xmlns=\"{MEDIA_2}\"><Protocol>RTSP</Protocol><ProfileToken>{token}</ProfileToken></GetStreamUri>"
        );
    }
    format!(
        "<GetStreamUri xmlns=\"{MEDIA}\"><StreamSetup><Stream xmlns=\"{SCHEMA}\">RTP-Unicast</Stream><Transport \
         xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport></StreamSetup><ProfileToken>{token}</ProfileToken></GetStreamUri>"
    )
}

/// Usual addresses for a device that named none, if it speaks RTSP.
fn hint(target: &Target, device: &mut Device) {
    let port = Some(target.device.port());
    let Some((rtsp, server)) = brands::of_host(target.device.ip(), port) else {
        return;
    };
    let maker = device.manufacturer.as_deref().unwrap_or_default();
    device.hints = brands::hints(rtsp, &format!("{maker} {server}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::xml;

    #[test]
    fn profiles_of_both_services_are_read() {
        let one = "<Profiles token='a&amp;b'><Name>Main</Name><VideoSourceConfiguration><SourceToken>s1</SourceToken>\
                   </VideoSourceConfiguration><VideoEncoderConfiguration><Encoding>H264</Encoding><Resolution><Width>1920</Width>\
                   <Height>1080</Height></Resolution><RateControl><FrameRateLimit>25</FrameRateLimit></RateControl>\
                   </VideoEncoderConfiguration></Profiles>";
        let two = "<Profiles token='a&amp;b'><Name>Main</Name><Configurations><VideoSource><SourceToken>s1</SourceToken></VideoSource>\
                   <VideoEncoder><Encoding>H265</Encoding><Resolution><Width>1920</Width><Height>1080</Height></Resolution><RateControl>\
                   <FrameRateLimit>25.0</FrameRateLimit></RateControl></VideoEncoder></Configurations></Profiles>";
        let expected = |codec: &str| Profile {
            token: "a&b".to_owned(),
            source: "s1".to_owned(),
            stream: Stream {
                profile: "Main".to_owned(),
                codec: Some(codec.to_owned()),
                width: Some(1_920),
                height: Some(1_080),
                fps: Some(25.0),
                uri: String::new(),
            },
        };
        assert_eq!(profile(&xml::parse(one).unwrap()), Some(expected("h264")));
        assert_eq!(profile(&xml::parse(two).unwrap()), Some(expected("h265")));
        let sound = "<Profiles token='a'><Name>Sound</Name><AudioEncoderConfiguration/></Profiles>";
        assert_eq!(profile(&xml::parse(sound).unwrap()), None);
    }

    #[test]
    fn numbers_that_are_none_are_left_out() {
        let text = "<Profiles token='a'><VideoEncoderConfiguration><Encoding>JPEG</Encoding><Resolution><Width>-1</Width><Height>1e9\
                    </Height></Resolution><RateControl><FrameRateLimit>NaN</FrameRateLimit></RateControl></VideoEncoderConfiguration>\
                    </Profiles>";
        let stream = profile(&xml::parse(text).unwrap()).unwrap().stream;
        assert_eq!((stream.width, stream.height, stream.fps), (None, None, None));
        assert_eq!(
            (stream.codec.as_deref(), stream.profile.as_str()),
            (Some("mjpeg"), "a")
        );
    }

    #[test]
    fn times_are_read_and_compared() {
        let answer = |year: &str| {
            let text = format!(
                "<A><SystemDateAndTime><UTCDateTime><Time><Hour>23</Hour><Minute>59</Minute><Second>58</Second></Time><Date><Year>\
                 {year}</Year><Month>11</Month><Day>30</Day></Date></UTCDateTime></SystemDateAndTime></A>"
            );
            utc(&xml::parse(&text).unwrap())
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
