//! A camera that speaks ONVIF, as a test wants it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use md5::{Digest, Md5};
use sha1::{Digest as _, Sha1};

use crate::browser::from_base64;
use crate::soap_server::{Reply, Request, Server};

pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "s3cret-p@ss%41";

/// Seconds that the time of a token may differ from the clock of the camera.
const MAX_AGE_S: u64 = 60;

/// Login that a camera wants.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wants {
    Nothing,
    Token,
    Digest,
}

/// Answers of a camera.
#[derive(Clone)]
pub(crate) struct Camera {
    pub(super) wants: Wants,
    /// Seconds by which its clock is ahead.
    pub(super) ahead_s: u64,
    pub(super) model: String,
    /// Host and port of its RTSP server.
    pub(super) rtsp: String,
    /// Path and query of its main stream, as XML has them.
    pub(super) main_stream: String,
    /// Scheme and host of the addresses of its services.
    pub(super) services: String,
}

impl Camera {
    pub(crate) fn new(wants: Wants) -> Self {
        Self {
            wants,
            ahead_s: 0,
            model: "Cam &amp; 3000".to_owned(),
            rtsp: "rtsp://127.0.0.1:554".to_owned(),
            main_stream: "main?a=1&amp;b=$2".to_owned(),
            services: "http://203.0.113.1:81".to_owned(),
        }
    }

    /// A camera without a login, with its main stream at `/live` of an RTSP server at that port of this machine.
    pub(crate) fn with_stream(port: u16) -> Self {
        Self {
            rtsp: format!("rtsp://127.0.0.1:{port}"),
            main_stream: "live".to_owned(),
            ..Self::new(Wants::Nothing)
        }
    }

    /// A server that answers as this camera, also to searches.
    pub(crate) fn start(self) -> Server {
        Server::with_search(move |request, _| self.answer(request), matched)
    }

    #[allow(clippy::disallowed_methods, reason = "a camera has a clock")]
    fn now(&self) -> SystemTime {
        SystemTime::now() + Duration::from_secs(self.ahead_s)
    }

    pub(super) fn answer(&self, request: &Request) -> Reply {
        if request.body.contains("<GetSystemDateAndTime") {
            return Reply::soap_time(self.now());
        }
        match self.wants {
            Wants::Token if !self.accepts_token(&request.body) => {
                return Reply::soap(
                    "400 Bad Request",
                    "<SOAP-ENV:Fault><SOAP-ENV:Code><SOAP-ENV:Value>SOAP-ENV:Sender</SOAP-ENV:Value><SOAP-ENV:Subcode><SOAP-ENV:Value>\
                     ter:NotAuthorized</SOAP-ENV:Value></SOAP-ENV:Subcode></SOAP-ENV:Code><SOAP-ENV:Reason><SOAP-ENV:Text>Sender not \
                     authorized</SOAP-ENV:Text></SOAP-ENV:Reason></SOAP-ENV:Fault>",
                );
            }
            Wants::Digest if !accepts_digest(request) => {
                let challenge = "WWW-Authenticate: Basic realm=\"cam\"\r\nWWW-Authenticate: Digest realm=\"cam\", nonce=\"abc\", \
                                 qop=\"auth\"\r\n";
                return Reply::with("401 Unauthorized", challenge, "");
            }
            _ => {}
        }
        self.content(&request.body)
    }

    fn content(&self, body: &str) -> Reply {
        let (model, services, rtsp) = (&self.model, &self.services, &self.rtsp);
        let answer = if body.contains("<GetDeviceInformation") {
            format!(
                "<tds:GetDeviceInformationResponse><tds:Manufacturer>Acme</tds:Manufacturer><tds:Model>{model}</tds:Model>\
                 <tds:FirmwareVersion>1.2.3</tds:FirmwareVersion><tds:SerialNumber>S1</tds:SerialNumber>\
                 </tds:GetDeviceInformationResponse>"
            )
        } else if body.contains("<GetServices") {
            format!(
                "<tds:GetServicesResponse><tds:Service><tds:Namespace>http://www.onvif.org/ver10/device/wsdl</tds:Namespace><tds:XAddr>\
                 {services}/onvif/device_service</tds:XAddr></tds:Service><tds:Service><tds:Namespace>\
                 http://www.onvif.org/ver10/media/wsdl</tds:Namespace><tds:XAddr>{services}/onvif/media_service</tds:XAddr></tds:Service>\
                 </tds:GetServicesResponse>"
            )
        } else if body.contains("<GetProfiles") {
            format!(
                "<trt:GetProfilesResponse>{}{}<trt:Profiles token=\"sound\"><tt:Name>sound</tt:Name></trt:Profiles>\
                 </trt:GetProfilesResponse>",
                profile("second", 640, 360, 10),
                profile("main", 1_920, 1_080, 25),
            )
        } else if body.contains("<GetStreamUri") {
            let name = if body.contains("<ProfileToken>main</ProfileToken>") {
                self.main_stream.as_str()
            } else {
                "second"
            };
            format!(
                "<trt:GetStreamUriResponse><trt:MediaUri><tt:Uri>{rtsp}/{name}</tt:Uri></trt:MediaUri></trt:GetStreamUriResponse>"
            )
        } else {
            return Reply::with("404 Not Found", "", "<html></html>");
        };
        Reply::soap("200 OK", &answer)
    }

    /// True if the token is right, and of now by the clock of the camera.
    fn accepts_token(&self, body: &str) -> bool {
        let part = |name: &str| {
            let (_, rest) = body.split_once(&format!("<{name}"))?;
            let (_, rest) = rest.split_once('>')?;
            Some(rest.split('<').next()?.to_owned())
        };
        // The token itself begins with the same letters.
        let user = body
            .split_once("<Username>")
            .and_then(|(_, rest)| rest.split('<').next());
        let (Some(digest), Some(nonce), Some(created)) = (part("Password"), part("Nonce"), part("Created"))
        else {
            return false;
        };
        let text = [
            from_base64(&nonce).as_slice(),
            created.as_bytes(),
            PASSWORD.as_bytes(),
        ]
        .concat();
        let is_right = user == Some(USER) && from_base64(&digest) == Sha1::digest(text).as_slice();
        let time = humantime::parse_rfc3339(&created).unwrap_or(UNIX_EPOCH);
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs();
        is_right && seconds(time).abs_diff(seconds(self.now())) <= MAX_AGE_S
    }
}

/// True if the answer to the challenge is right (RFC 7616).
fn accepts_digest(request: &Request) -> bool {
    let header = request.header("Authorization");
    let value = |name: &str| {
        let (_, rest) = header.split_once(&format!("{name}="))?;
        Some(rest.split(',').next()?.trim_matches('"').to_owned())
    };
    let hash = |text: &str| -> String {
        let digest = Md5::digest(text.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let (Some(response), Some(cnonce), Some(count)) = (value("response"), value("cnonce"), value("nc"))
    else {
        return false;
    };
    let secret = hash(&format!("{USER}:cam:{PASSWORD}"));
    let call = hash(&format!("POST:{}", request.path));
    response == hash(&format!("{secret}:abc:{count}:{cnonce}:auth:{call}"))
}

fn profile(name: &str, width: u32, height: u32, fps: u32) -> String {
    format!(
        "<trt:Profiles token=\"{name}\"><tt:Name>{name}</tt:Name><tt:VideoSourceConfiguration><tt:SourceToken>one</tt:SourceToken>\
         </tt:VideoSourceConfiguration><tt:VideoEncoderConfiguration><tt:Encoding>H264</tt:Encoding><tt:Resolution><tt:Width>{width}\
         </tt:Width><tt:Height>{height}</tt:Height></tt:Resolution><tt:RateControl><tt:FrameRateLimit>{fps}</tt:FrameRateLimit>\
         </tt:RateControl></tt:VideoEncoderConfiguration></trt:Profiles>"
    )
}

/// Answer to a search: the name of the camera, and where it is.
fn matched(port: u16) -> String {
    format!(
        "<a:EndpointReference><a:Address>urn:uuid:5f5a69c2-e0ae-504f-829b-00fcdb12</a:Address></a:EndpointReference><d:Types>\
         dn:NetworkVideoTransmitter</d:Types><d:Scopes>onvif://www.onvif.org/name/Front%20Door</d:Scopes><d:XAddrs>\
         http://127.0.0.1:{port}/onvif/device_service</d:XAddrs>"
    )
}
