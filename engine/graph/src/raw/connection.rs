//! How a source is connected to: its transport, and options of FFmpeg.

use weir_config::{Field, Fields};
use weir_flow::{Connection, Settings, Transport};

use super::context::Context;
use crate::emulated::EmulatedStream;
use crate::settings;

/// Keys of a source that this reads.
pub(super) const KEYS: [&str; 2] = ["transport", "options"];

/// Reads them for the source at `uri`.
pub(super) fn read(
    name: &str,
    uri: Option<&str>,
    fields: &Fields<'_>,
    context: &mut Context<'_>,
) -> Connection {
    let words = [("tcp", Transport::Tcp), ("udp", Transport::Udp)];
    let transport = fields.word("transport", &words, context.diagnostics);
    if let (Field::Given(transport), Some(uri)) = (&transport, uri)
        && !["rtsp://", "rtsps://"]
            .iter()
            .any(|scheme| uri.starts_with(scheme))
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
        options: options(name, uri, fields, context),
    }
}

fn options(name: &str, uri: Option<&str>, fields: &Fields<'_>, context: &mut Context<'_>) -> Settings {
    let Some(entry) = fields.entry("options") else {
        return Settings::default();
    };
    if uri.is_some_and(|uri| uri.starts_with(EmulatedStream::SCHEME)) {
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
    settings::read(&table, keys, context.folder, context.diagnostics).settings
}
