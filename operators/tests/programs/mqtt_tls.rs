//! A real broker that encrypts, and asks for certificates; certificates are made by the program `openssl`.

use weir_flow::Value;

use super::delivered::{check, dead_letters, open, reasons, send, text, wait};
use super::mqtt::{Broker, free_port};
use crate::certificates::Certificates;

const SIGNED: [(&str, &str); 2] = [
    ("broker", "subjectAltName=IP:127.0.0.1"),
    ("weir", "basicConstraints=CA:FALSE"),
];

#[test]
fn a_broker_that_encrypts_is_believed_by_its_authority_and_believes_by_ours() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::make(folder.path(), &SIGNED) else {
        return;
    };
    let text_of = |name: &str| text(&certificates.text(name));
    let port = free_port();
    let at = folder.path().display();
    let listener = format!(
        "listener {port} 127.0.0.1\ncafile {at}/ca.pem\ncertfile {at}/broker.pem\nkeyfile {at}/broker.key\n\
         require_certificate true\n"
    );
    let Some(broker) = Broker::with(folder.path(), &listener) else {
        return;
    };
    let mut watcher = broker.watch();
    let path = folder.path().join("undelivered.jsonl");
    let open_with = |keys: &[(&str, Value)]| {
        let mut all = vec![
            ("host", text("127.0.0.1")),
            ("port", Value::Number(f64::from(port))),
            ("path", text(path.to_str().unwrap())),
        ];
        all.extend_from_slice(keys);
        open("mqtt", &all)
    };
    let certificate = [
        ("certificate_file", text_of("weir.pem")),
        ("key_file", text_of("weir.key")),
    ];
    let ca = |name: &str| ("ca_file", text_of(name));

    let mut mqtt = open_with(&[ca("ca.pem"), certificate[0].clone(), certificate[1].clone()]);
    send(&mut *mqtt, 40);
    let counts = wait(&*mqtt, |_| {});
    assert_eq!(counts["delivered"], 40, "{counts:?}");
    mqtt.finish().unwrap();
    watcher.run_until(|watcher| watcher.taken.len() >= 40);
    check(40, &watcher.taken, &dead_letters(&path));

    let refused = |keys: &[(&str, Value)], expected: &str| {
        let mut keys = keys.to_vec();
        keys.push(("give_up_after", Value::Number(0.05)));
        let mut mqtt = open_with(&keys);
        send(&mut *mqtt, 1);
        wait(&*mqtt, |_| {});
        mqtt.finish().unwrap();
        let reasons = reasons(&path);
        assert!(reasons[0].contains(expected), "{reasons:?}");
        std::fs::remove_file(&path).unwrap();
    };
    // A stranger that says to be the broker, and us without a certificate.
    refused(
        &[ca("stranger.pem"), certificate[0].clone(), certificate[1].clone()],
        "`ca_file`",
    );
    refused(&[ca("ca.pem")], "`certificate_file`");
    // It is not spoken to in clear.
    refused(&[], &format!("127.0.0.1:{port}"));
}
