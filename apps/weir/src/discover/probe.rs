//! WS-Discovery: a question over UDP that devices answer with the addresses of their services, by multicast or to one host.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use weir_operators::media::login::random_uuid;
use weir_operators::onvif::{self, Deadline, Element};

use super::text;

/// Group that devices listen to.
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);

/// Port that devices listen at.
const PORT: u16 = 3702;

/// The question is sent again after this time, since UDP loses packets.
const REPEAT_AFTER: Duration = Duration::from_millis(500);

/// Longest datagram of UDP, in bytes.
const MAX_DATAGRAM: usize = 65_535;

/// Datagrams and bytes that are read on one interface.
const MAX_DATAGRAMS: usize = 4_096;
const MAX_BYTES: usize = 8 << 20;

/// Devices that one search finds.
pub(super) const MAX_DEVICES: usize = 256;

/// Addresses and scopes of an answer.
const MAX_ENTRIES: usize = 64;

/// Type of devices with video.
const KIND: &str = "NetworkVideoTransmitter";

/// Prefix of the scopes of devices that speak ONVIF.
const SCOPES: &str = "onvif://www.onvif.org/";

/// Answer of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    /// Stable name of the device.
    pub(super) endpoint: String,
    /// Sender of the answer.
    pub(super) from: IpAddr,
    /// Further senders with the same endpoint.
    pub(super) also_from: Vec<IpAddr>,
    /// Addresses of the device service.
    pub(super) services: Vec<String>,
    pub(super) scopes: Vec<String>,
}

/// Devices that were found, and whether there were more than a search takes.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) answers: Vec<Answer>,
    pub(super) is_cut_off: bool,
}

/// Searches the networks of these addresses of this machine.
///
/// # Errors
/// The reason, if the question could not be sent on any of them.
pub(super) fn search(interfaces: &[Ipv4Addr], wait: Duration) -> Result<Found, String> {
    let results: Vec<Result<Found, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = interfaces
            .iter()
            .map(|interface| {
                scope.spawn(move || {
                    let failed = |error: &dyn std::fmt::Display| format!("{interface}: {error}");
                    let socket = UdpSocket::bind((*interface, 0)).map_err(|error| failed(&error))?;
                    let group = SocketAddr::from((GROUP, PORT));
                    collect(&socket, &[group], &|_| true, None, wait).map_err(|error| failed(&error))
                })
            })
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|result| result.unwrap_or_else(|_| Err("its thread failed".to_owned())))
            .collect()
    });
    let (mut found, mut problems, mut is_sent) = (Found::default(), Vec::new(), false);
    for result in results {
        match result {
            Ok(more) => {
                is_sent = true;
                found.is_cut_off |= more.is_cut_off;
                for answer in more.answers {
                    merge(&mut found, answer);
                }
            }
            Err(problem) => problems.push(problem),
        }
    }
    if is_sent {
        found.answers.sort_by_key(|answer| answer.from);
        Ok(found)
    } else {
        Err(problems.join("; "))
    }
}

/// Asks one host, at the port of WS-Discovery and at `port`. `None` if it does not answer in time.
pub(super) fn ask(host: IpAddr, port: Option<u16>, wait: Duration) -> Option<Answer> {
    let any: IpAddr = match host {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    let ports = std::iter::once(PORT).chain(port);
    let targets: Vec<SocketAddr> = ports.map(|port| SocketAddr::from((host, port))).collect();
    let is_asked = |answer: &Answer| port.is_none_or(|port| answer.is_at(host, port));
    let found = collect(&socket, &targets, &is_asked, Some(host), wait).ok()?;
    found.answers.into_iter().next()
}

/// Sends the question, and reads answers until the wait is over; from one `host`, until its first answer.
fn collect(
    socket: &UdpSocket,
    targets: &[SocketAddr],
    is_asked: &dyn Fn(&Answer) -> bool,
    host: Option<IpAddr>,
    wait: Duration,
) -> Result<Found, String> {
    let question = question(&random_uuid()?);
    let (end, mut repeat) = (Deadline::after(wait), Some(Deadline::after(REPEAT_AFTER)));
    send(socket, targets, &question)?;
    let mut found = Found::default();
    let (mut datagrams, mut bytes) = (0, 0);
    let mut buffer = vec![0; MAX_DATAGRAM];
    while let Some(left) = end.left() {
        let pause = repeat.map_or(left, |at| at.left().unwrap_or(Duration::ZERO).min(left));
        if pause.is_zero() {
            repeat = None;
            // The first one was sent.
            let _ = send(socket, targets, &question);
            continue;
        }
        let timeout = pause.max(Duration::from_millis(1));
        socket
            .set_read_timeout(Some(timeout))
            .map_err(|error| error.to_string())?;
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if is_pause(error.kind()) => continue,
            Err(error) => return Err(error.to_string()),
        };
        datagrams += 1;
        bytes += length;
        if datagrams > MAX_DATAGRAMS || bytes > MAX_BYTES {
            found.is_cut_off = true;
            break;
        }
        let from = from.ip().to_canonical();
        if host.is_some_and(|host| host.to_canonical() != from) {
            continue;
        }
        let devices = answers(&String::from_utf8_lossy(&buffer[..length]), from);
        for answer in devices.into_iter().filter(|answer| is_asked(answer)) {
            merge(&mut found, answer);
        }
        if host.is_some() && !found.answers.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Errors of a read after which the next one may succeed: nothing came, or a host refused the question.
fn is_pause(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
    )
}

/// Sends to all targets.
///
/// # Errors
/// The reason, if none of them could be sent to.
fn send(socket: &UdpSocket, targets: &[SocketAddr], question: &str) -> Result<(), String> {
    let sent = targets
        .iter()
        .map(|target| socket.send_to(question.as_bytes(), target));
    let sent: Vec<_> = sent.collect();
    match sent.iter().find_map(|result| result.as_ref().err()) {
        Some(error) if sent.iter().all(Result::is_err) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Adds a device; one that answered before is kept once.
fn merge(found: &mut Found, answer: Answer) {
    let is_same = |known: &Answer| known.endpoint == answer.endpoint;
    let Some(at) = found.answers.iter().position(is_same) else {
        if found.answers.len() < MAX_DEVICES {
            found.answers.push(answer);
        } else {
            found.is_cut_off = true;
        }
        return;
    };
    let known = &mut found.answers[at];
    let is_new = known.from != answer.from && !known.also_from.contains(&answer.from);
    if is_new && known.also_from.len() < MAX_ENTRIES {
        known.also_from.push(answer.from);
    }
}

/// The question for devices with video.
fn question(id: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:w=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
         xmlns:dn=\"http://www.onvif.org/ver10/network/wsdl\"><e:Header><w:MessageID>uuid:{id}</w:MessageID>\
         <w:To e:mustUnderstand=\"true\">urn:schemas-xmlsoap-org:ws:2005:04:discovery</w:To>\
         <w:Action e:mustUnderstand=\"true\">http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</w:Action></e:Header>\
         <e:Body><d:Probe><d:Types>dn:{KIND}</d:Types></d:Probe></e:Body></e:Envelope>"
    )
}

/// The devices that a datagram names. Anything else gives none.
fn answers(datagram: &str, from: IpAddr) -> Vec<Answer> {
    let Ok(root) = onvif::parse(datagram) else {
        return Vec::new();
    };
    let Some(body) = root.at(&["Body"]) else {
        return Vec::new();
    };
    // Some devices leave the list around the entries out.
    let listed = body.all("ProbeMatches").flat_map(|list| list.all("ProbeMatch"));
    let matches = listed.chain(body.all("ProbeMatch"));
    let entries = |matched: &Element, name: &str| -> Vec<String> {
        let words = matched.text_at(&[name]).unwrap_or_default().split_whitespace();
        words.take(MAX_ENTRIES).map(onvif::clean).collect()
    };
    let devices = matches.filter_map(|matched| {
        let (services, scopes) = (entries(matched, "XAddrs"), entries(matched, "Scopes"));
        let is_camera = matched
            .text_at(&["Types"])
            .is_some_and(|types| types.contains(KIND))
            || scopes.iter().any(|scope| scope.starts_with(SCOPES))
            || services.iter().any(|service| service.contains("/onvif/"));
        let endpoint = matched.text_at(&["EndpointReference", "Address"]);
        is_camera.then(|| Answer {
            endpoint: endpoint.map_or_else(|| from.to_string(), onvif::clean),
            from,
            also_from: Vec::new(),
            services,
            scopes,
        })
    });
    devices.take(MAX_DEVICES).collect()
}

impl Answer {
    /// An answer that names nothing but its sender.
    #[cfg(test)]
    pub(super) fn from_host(from: IpAddr) -> Self {
        Self {
            endpoint: from.to_string(),
            from,
            also_from: Vec::new(),
            services: Vec::new(),
            scopes: Vec::new(),
        }
    }

    /// False if the device names ports of its services at `host`, and `port` is none of them: several devices share the address
    /// of a router.
    fn is_at(&self, host: IpAddr, port: u16) -> bool {
        let services = self.services.iter().filter_map(|service| onvif::service(service));
        let own = services.filter(|(of, _, _)| *of == host.to_canonical());
        let ports: Vec<u16> = own.map(|(_, port, _)| port).collect();
        ports.is_empty() || ports.contains(&port)
    }

    /// Name that the device was given, of its scope `name`.
    pub(super) fn name(&self) -> Option<String> {
        let name = self
            .scopes
            .iter()
            .find_map(|scope| scope.strip_prefix(SCOPES)?.strip_prefix("name/"))?;
        Some(onvif::clean(&text::percent_decoded(name))).filter(|name| !name.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

    fn datagram(endpoint: &str, rest: &str) -> String {
        format!(
            "<s:Envelope xmlns:s=\"a\"><s:Header/><s:Body><d:ProbeMatches xmlns:d=\"b\"><d:ProbeMatch><w:EndpointReference xmlns:w=\"c\">\
             <w:Address>{endpoint}</w:Address></w:EndpointReference>{rest}</d:ProbeMatch></d:ProbeMatches></s:Body></s:Envelope>"
        )
    }

    #[test]
    fn answers_name_addresses_and_scopes() {
        let rest = "<d:Types xmlns:d=\"b\">dn:NetworkVideoTransmitter tds:Device</d:Types><d:Scopes xmlns:d=\"b\">\
                    onvif://www.onvif.org/type/video_encoder onvif://www.onvif.org/name/Front%20Door</d:Scopes>\
                    <d:XAddrs xmlns:d=\"b\">http://10.0.0.7/onvif/device_service http://[fe80::1]/onvif/device_service</d:XAddrs>";
        let found = answers(&datagram("urn:uuid:1", rest), FROM);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].endpoint.as_str(), found[0].services.len()),
            ("urn:uuid:1", 2)
        );
        assert_eq!(found[0].name().as_deref(), Some("Front Door"));
        let bare = datagram("urn:uuid:1", rest).replace("d:ProbeMatches", "d:Other");
        assert_eq!(answers(&bare, FROM), Vec::new());
        let bare = bare
            .replace("<d:Other xmlns:d=\"b\">", "")
            .replace("</d:Other>", "");
        assert_eq!(
            answers(
                &bare.replace("<d:ProbeMatch>", "<d:ProbeMatch xmlns:d=\"b\">"),
                FROM
            ),
            found
        );
    }

    #[test]
    fn a_named_port_is_one_that_the_device_names() {
        let answer = |service: &str| Answer {
            services: vec![service.to_owned()],
            ..Answer::from_host(FROM)
        };
        for (service, is_at) in [
            ("http://10.0.0.7:8000/onvif", true),
            ("http://10.0.0.7/onvif", false),
            ("http://192.168.1.5/onvif", true),
            ("nothing", true),
        ] {
            assert_eq!(answer(service).is_at(FROM, 8_000), is_at, "{service}");
        }
    }

    #[test]
    fn other_devices_and_broken_datagrams_are_left_out() {
        let printer = "<Types>wsdp:Device</Types><XAddrs>http://10.0.0.7:5357/printer</XAddrs>";
        for text in [
            datagram("urn:uuid:2", printer),
            "<Envelope><Body/></Envelope>".to_owned(),
            "NOTIFY * HTTP/1.1\r\n".to_owned(),
            String::new(),
        ] {
            assert_eq!(answers(&text, FROM), Vec::new(), "{text}");
        }
    }

    #[test]
    fn devices_with_one_endpoint_are_merged_and_their_number_is_bounded() {
        let mut found = Found::default();
        let answer = |number: usize, last: u8| Answer {
            endpoint: format!("urn:{number}"),
            ..Answer::from_host(Ipv4Addr::new(10, 0, 0, last).into())
        };
        for last in [7, 7, 8, 8] {
            merge(&mut found, answer(1, last));
        }
        assert_eq!((found.answers.len(), found.answers[0].also_from.len()), (1, 1));
        for number in 0..1_000 {
            merge(&mut found, answer(number, 9));
        }
        assert_eq!((found.answers.len(), found.is_cut_off), (MAX_DEVICES, true));
    }
}
