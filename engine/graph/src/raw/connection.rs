//! Connection settings of a source: its transport, and options of FFmpeg.

use weir_config::{Field, Fields};
use weir_flow::{Connection, Settings, Transport};

use super::address::Addresses;
use super::context::Context;
use crate::settings;

/// Keys of a source that this reads.
pub(super) const KEYS: [&str; 2] = ["transport", "options"];

/// Reads them for the source at `addresses`, and for both of them where it has two.
pub(super) fn read(
    name: &str,
    addresses: &Addresses,
    fields: &Fields<'_>,
    context: &mut Context<'_>,
) -> Connection {
    let words = [("tcp", Transport::Tcp), ("udp", Transport::Udp)];
    let transport = fields.word("transport", &words, context.diagnostics);
    let is_rtsp = |uri: &str| {
        let uri = weir_flow::with_small_scheme(uri);
        uri.starts_with("rtsp://") || uri.starts_with("rtsps://")
    };
    if let Field::Given(transport) = &transport
        && addresses.uri.is_some()
        && !addresses.iter().any(is_rtsp)
    {
        let hint = Some("leave it out: other addresses say by themselves how they are sent".to_owned());
        context.diagnostics.add(
            transport.at,
            "`transport` is for cameras at rtsp:// addresses",
            hint,
        );
    }
    Connection {
        transport: transport.into_value().unwrap_or_default(),
        options: options(name, addresses, fields, context),
    }
}

fn options(name: &str, addresses: &Addresses, fields: &Fields<'_>, context: &mut Context<'_>) -> Settings {
    let Some(entry) = fields.entry("options") else {
        return Settings::default();
    };
    if addresses.is_emulated() {
        let message = "`options` are for streams that FFmpeg reads, not for emulated ones";
        context.diagnostics.add(entry.at, message, None);
        return Settings::default();
    }
    let owner = format!("`options` of source \"{name}\"");
    let Some(mut table) = Fields::open(owner, entry, context.diagnostics) else {
        return Settings::default();
    };
    let keys = context.catalog.connection_options;
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    table.expect(&names, false, context.diagnostics);
    let settings = settings::read(&table, keys, context.folder, context.diagnostics).settings;
    if let Some(declined) = table.entry("tls_verify")
        && is_unverified(addresses, &settings)
    {
        let message = format!(
            "source \"{name}\" does not verify the certificate of its server: anyone in between can take \
             its place"
        );
        let hint = "name the authority by `ca_file`, or pin the certificate of a camera by `tls_fingerprint`";
        context
            .diagnostics
            .warn(declined.node.at, message, Some(hint.to_owned()));
    }
    settings
}

/// Whether an address is encrypted, and any certificate will do.
fn is_unverified(addresses: &Addresses, settings: &Settings) -> bool {
    let is_encrypted = |uri: &str| uri.starts_with("rtsps://") || uri.starts_with("https://");
    !settings.flag("tls_verify", true)
        && settings.text("tls_fingerprint").is_none()
        && addresses.iter().any(is_encrypted)
}
