//! Keys of a model that other people's model servers run.

use weir_config::{Content, Field, Fields, absolute, report_missing, texts};
use weir_flow::mask_credentials;
use weir_types::Span;

use super::context::Context;
use crate::keys::MAX_SERVERS;
use crate::model_servers::{ModelServers, ServerProtocol};

/// The longest that a call may take, where nothing is said.
const TIMEOUT: Span = Span::from_secs(5);

const BACKENDS: [(&str, Option<ServerProtocol>); 2] =
    [("onnx", None), ("kserve", Some(ServerProtocol::KServe))];

/// Reads them; `None` for a model that runs here, of which the others say nothing.
pub(super) fn read(model: &str, fields: &Fields<'_>, context: &mut Context<'_>) -> Option<ModelServers> {
    let backend = fields.word("backend", &BACKENDS, context.diagnostics);
    let Some(protocol) = backend.into_value().flatten() else {
        let needs_backend = fields.entry("url").filter(|_| fields.entry("backend").is_none());
        if let Some(entry) = needs_backend {
            let message = format!("{} has a `url` and no `backend`", fields.owner);
            let hint = Some("add backend = \"kserve\" for a model on a model server".to_owned());
            context.diagnostics.add_if_parsed(entry.at, message, hint);
        }
        return None;
    };
    for (key, reason) in [
        ("model", "the server has the model: set `name` to its name there"),
        ("device", "it runs where its servers run it"),
        ("devices", "it runs where its servers run it"),
        ("plan", "a server runs it whole"),
    ] {
        if let Some(entry) = fields.entry(key) {
            let message = format!("{} is on a model server and has a `{key}`", fields.owner);
            context
                .diagnostics
                .add(entry.at, message, Some(format!("leave it out: {reason}")));
        }
    }
    let name = plain(fields, "name", context).unwrap_or_else(|| model.to_owned());
    Some(ModelServers {
        protocol,
        urls: urls(fields, context).unwrap_or_default(),
        name,
        version: plain(fields, "version", context),
        token_file: token_file(fields, context),
        timeout: fields
            .span("timeout", context.diagnostics)
            .into_value()
            .unwrap_or(TIMEOUT),
    })
}

/// The addresses, each of a web server.
fn urls(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<Vec<String>> {
    let diagnostics = &mut *context.diagnostics;
    let Some(entry) = fields.entry("url") else {
        let hint = Some("add url = \"http://HOST:8000\", or a list of such addresses".to_owned());
        let message = format!("{} is on a model server and has no `url`", fields.owner);
        diagnostics.add_if_parsed(fields.at, message, hint);
        return None;
    };
    let listed = match &entry.node.content {
        Content::List(list) => texts("url", list, diagnostics)?,
        _ => match fields.text("url", diagnostics) {
            Field::Given(url) => vec![url],
            Field::Absent | Field::Broken => return None,
        },
    };
    if listed.is_empty() || listed.len() > MAX_SERVERS {
        let message = format!("`url` must name from 1 to {MAX_SERVERS} servers");
        diagnostics.add(entry.node.at, message, None);
        return None;
    }
    for (place, url) in listed.iter().enumerate() {
        let host = ["http://", "https://"]
            .into_iter()
            .find_map(|scheme| url.value.strip_prefix(scheme))
            .map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        let is_plain = !url.value.contains(['?', '#']) && !url.value.contains(char::is_whitespace);
        if !host.is_some_and(|host| !host.is_empty() && !host.ends_with('@')) || !is_plain {
            let shown = mask_credentials(&url.value);
            let message = format!("`url`: \"{}\" is no address of a server", shown.escape_debug());
            let hint = Some("it begins with http:// or https://, and ends with a host and a port".to_owned());
            diagnostics.add(url.at, message, hint);
            return None;
        }
        if listed[..place].iter().any(|other| other.value == url.value) {
            let message = "`url` names a server twice";
            let hint = "set `workers` for more concurrent calls".to_owned();
            diagnostics.add(url.at, message, Some(hint));
            return None;
        }
    }
    Some(listed.into_iter().map(|url| url.value).collect())
}

/// A text that is a part of an address.
fn plain(fields: &Fields<'_>, key: &str, context: &mut Context<'_>) -> Option<String> {
    let text = fields.text(key, context.diagnostics).given().cloned()?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.value.chars().all(fits) && !text.value.starts_with('.') {
        return Some(text.value);
    }
    let message = format!(
        "`{key}` holds letters, digits, `-`, `_` and `.`, unlike {:?}",
        text.value
    );
    context.diagnostics.add(text.at, message, None);
    None
}

fn token_file(fields: &Fields<'_>, context: &mut Context<'_>) -> Option<std::path::PathBuf> {
    let spanned = fields.text("token_file", context.diagnostics).given().cloned()?;
    let path = absolute(context.folder, &spanned.value);
    if !path.is_file() {
        let message = format!("`token_file`: there is no file \"{}\"", spanned.value);
        report_missing(&message, &path, spanned.at, context.diagnostics);
        return None;
    }
    Some(path)
}
