//! Questions to one device by ONVIF: its clock, its name, and the addresses of its streams.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_operators::onvif::{
    self, Client, DEVICE, Element, Login, MEDIA, MEDIA_2, Problem, SCHEMA, clean, xml_escaped,
};

use super::address;
use super::brands;
use super::facts::{Camera, Device, Stream};
use super::probe::Answer;

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
    let mut client = Client::new(target.device, login.cloned(), "--user and --password-file");
    let difference = onvif::clock(&mut client, &target.path);
    device.answered = !matches!(difference, Err(Problem::Unreached(_)));
    device.service = device
        .answered
        .then(|| format!("http://{}{}", target.device, target.path));
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

/// Maker, model and version.
fn identity(client: &mut Client, path: &str, device: &mut Device) -> Result<(), Problem> {
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

fn services(client: &mut Client, path: &str) -> Result<Services, Problem> {
    let listed = onvif::services(client, path)?;
    let path_of = |namespace: &str| listed.address(namespace).and_then(onvif::path);
    let found = Services {
        media: path_of(MEDIA),
        media_2: path_of(MEDIA_2),
    };
    if found != Services::default() {
        return Ok(found);
    }
    // Devices of before 2011 know this alone.
    let media = onvif::capability(client, path, "Media")?;
    let media = media.as_deref().and_then(onvif::path);
    if media.is_none() {
        return Err(Problem::Fault(
            "it names no media service: it has no streams".to_owned(),
        ));
    }
    Ok(Services { media, media_2: None })
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
fn profiles(client: &mut Client, services: &Services) -> Result<Profiles, Problem> {
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
        token: profile.attribute("token").to_owned(),
        source: source
            .and_then(|source| source.text_at(&["SourceToken"]))
            .unwrap_or_default()
            .to_owned(),
        stream: Stream {
            profile: clean(
                profile
                    .text_at(&["Name"])
                    .unwrap_or_else(|| profile.attribute("token")),
            ),
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
    client: &mut Client,
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
    use weir_operators::onvif::parse;

    use super::*;

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
        assert_eq!(profile(&parse(one).unwrap()), Some(expected("h264")));
        assert_eq!(profile(&parse(two).unwrap()), Some(expected("h265")));
        let sound = "<Profiles token='a'><Name>Sound</Name><AudioEncoderConfiguration/></Profiles>";
        assert_eq!(profile(&parse(sound).unwrap()), None);
    }

    #[test]
    fn numbers_that_are_none_are_left_out() {
        let text = "<Profiles token='a'><VideoEncoderConfiguration><Encoding>JPEG</Encoding><Resolution><Width>-1</Width><Height>1e9\
                    </Height></Resolution><RateControl><FrameRateLimit>NaN</FrameRateLimit></RateControl></VideoEncoderConfiguration>\
                    </Profiles>";
        let stream = profile(&parse(text).unwrap()).unwrap().stream;
        assert_eq!((stream.width, stream.height, stream.fps), (None, None, None));
        assert_eq!(
            (stream.codec.as_deref(), stream.profile.as_str()),
            (Some("mjpeg"), "a")
        );
    }
}
