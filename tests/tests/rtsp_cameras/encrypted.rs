//! Cameras that encrypt: their certificates are verified, by authorities or by a fingerprint.

use std::collections::BTreeMap;

use weir_flow::{Connection, Settings, StopFlag, Value};
use weir_operators::media::{SourceOptions, source};

use super::camera::{self, Camera, ClipSpec, write_clip};
use crate::certificates::Certificates;

const SIGNED: [(&str, &str); 2] = [
    ("camera", "subjectAltName=IP:127.0.0.1"),
    ("elsewhere", "subjectAltName=DNS:other.example"),
];

/// Width of the first picture, or why there is none.
fn open(uri: &str, options: &[(&str, Value)]) -> Result<u32, String> {
    let options = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()));
    let options = SourceOptions {
        connection: Connection {
            options: Settings(options.collect::<BTreeMap<_, _>>()),
            ..Connection::default()
        },
        ..SourceOptions::default()
    };
    let opened = source(uri, options).open(&StopFlag::default());
    let frame = opened.and_then(|mut source| source.next());
    let frame = frame.map_err(|error| error.to_string())?;
    Ok(frame.unwrap().image.width)
}

#[test]
fn certificates_of_cameras_are_verified() {
    if !camera::are_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::make(folder.path(), &SIGNED) else {
        return;
    };
    let clip = write_clip(
        folder.path(),
        ClipSpec {
            name: "clip",
            fps: 10,
            size: (160, 90),
            sound: false,
        },
    );
    let tls = |name: &str| {
        let [certificate, key] = ["pem", "key"].map(|kind| certificates.text(&format!("{name}.{kind}")));
        format!("tls={certificate},{key}")
    };
    let own = Camera::start(&clip, &[&tls("camera"), "user=admin:geheim"]);
    let other = Camera::start(&clip, &[&tls("elsewhere")]);
    let plain = Camera::start(&clip, &[]);
    let own = format!("rtsps://admin:geheim@127.0.0.1:{}/live", own.port);
    let other = format!("rtsps://127.0.0.1:{}/live", other.port);
    let authority = |name: &str| ("ca_file", Value::Text(certificates.text(&format!("{name}.pem"))));
    let pin = |fingerprint: &str| ("tls_fingerprint", Value::Text(fingerprint.to_owned()));

    assert_eq!(open(&own, &[authority("ca")]), Ok(160));
    let mut fingerprint = String::new();
    for options in [vec![], vec![authority("stranger")]] {
        let unknown = open(&own, &options).unwrap_err();
        for remedy in [
            "not signed by a trusted authority",
            "`ca_file`",
            "`tls_verify = false`",
        ] {
            assert!(unknown.contains(remedy), "{unknown}");
        }
        let (_, rest) = unknown.split_once("`tls_fingerprint = \"").unwrap();
        rest.split('"').next().unwrap().clone_into(&mut fingerprint);
    }
    assert_eq!(open(&own, &[pin(&fingerprint)]), Ok(160));
    let mistaken = open(&other, &[pin(&fingerprint)]).unwrap_err();
    assert!(mistaken.contains("not the pinned one"), "{mistaken}");
    let misnamed = open(&other, &[authority("ca")]).unwrap_err();
    assert!(
        misnamed.contains("other.example") && misnamed.contains("not for 127.0.0.1"),
        "{misnamed}"
    );
    assert_eq!(open(&other, &[("tls_verify", Value::Flag(false))]), Ok(160));
    let wrong = open(&own.replace("geheim", "falsch"), &[pin(&fingerprint)]).unwrap_err();
    assert!(wrong.contains("rejects this user"), "{wrong}");
    let unencrypted = open(&format!("rtsps://127.0.0.1:{}/live", plain.port), &[]).unwrap_err();
    assert!(unencrypted.contains("use rtsp:// if"), "{unencrypted}");
}
