//! Connection settings of a source: its transport, its login, its sound, the device service of its camera, and options of FFmpeg.

use std::path::{Path, PathBuf};

use weir_config::{Content, Entry, Field, Fields, absolute, report_missing};
use weir_flow::{
    CameraService, Connection, Settings, SourceLogin, Transport, has_login, host_problem,
    service_path_problem, takes_login,
};

use super::address::Addresses;
use super::context::Context;
use crate::settings;

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
        login: login(addresses, fields, context),
        sound: sound(addresses, fields, context),
        onvif: camera_service(addresses, fields, context),
    }
}

/// The device service of a camera that speaks ONVIF. Its login is that of the source.
fn camera_service(
    addresses: &Addresses,
    fields: &Fields<'_>,
    context: &mut Context<'_>,
) -> Option<CameraService> {
    let service = fields.text("onvif", context.diagnostics);
    let channel = fields.text("onvif_source", context.diagnostics);
    let diagnostics = &mut *context.diagnostics;
    let Some(service) = service.given() else {
        if let Some(entry) = fields.entry("onvif_source") {
            let message = "`onvif_source` has a meaning only with `onvif`";
            let hint = "onvif = \"http://CAMERA/onvif/device_service\"".to_owned();
            diagnostics.add(entry.at, message, Some(hint));
        }
        return None;
    };
    let address = weir_flow::with_small_scheme(&service.value).into_owned();
    let shown = weir_flow::mask_credentials(&address);
    let hint = "onvif = \"http://CAMERA/onvif/device_service\": `weir discover` finds it";
    let problem = if addresses.uri.is_some() && !addresses.iter().any(takes_login) {
        Some((
            "`onvif` is for cameras at rtsp:// or http:// addresses".to_owned(),
            "leave it out",
        ))
    } else if !address.starts_with("http://") {
        Some((format!("`onvif`: {shown} is not an http:// address"), hint))
    } else if has_login(&address) {
        let hint = "take them out: the camera is asked with `user` and `password_file` of the source";
        Some((format!("`onvif`: {shown} contains a user"), hint))
    } else {
        let problem = host_problem(&address).or_else(|| service_path_problem(&address));
        problem.map(|(problem, hint)| (format!("`onvif`: {shown} {problem}"), hint))
    };
    if let Some((message, hint)) = problem {
        diagnostics.add(service.at, message, Some(hint.to_owned()));
        return None;
    }
    Some(CameraService {
        address,
        channel: channel.into_value().filter(|channel| !channel.is_empty()),
    })
}

/// Whether the source is asked for its sound, which it is not by default.
fn sound(addresses: &Addresses, fields: &Fields<'_>, context: &mut Context<'_>) -> bool {
    let sound = fields
        .flag("sound", context.diagnostics)
        .into_value()
        .unwrap_or(false);
    if let Some(entry) = fields.entry("sound").filter(|_| addresses.is_emulated()) {
        let message = "`sound` is for cameras and recordings: emulated streams have none";
        context
            .diagnostics
            .add(entry.at, message, Some("leave it out".to_owned()));
    }
    sound
}

/// Reads the user and the file with the password. The file must exist; its contents are read only when the source is opened.
fn login(addresses: &Addresses, fields: &Fields<'_>, context: &mut Context<'_>) -> Option<SourceLogin> {
    let user = fields.text("user", context.diagnostics);
    let file = fields.text("password_file", context.diagnostics);
    let (user, file) = (user.given(), file.given());
    let (key, at) = match (user, file) {
        (Some(user), _) => ("user", user.at),
        (None, Some(file)) => ("password_file", file.at),
        (None, None) => return None,
    };
    let problem = if addresses.uri.is_some() && !addresses.iter().any(takes_login) {
        Some((
            format!("`{key}` is for addresses that begin with rtsp://, rtsps://, http:// or https://"),
            "leave it out: nothing else asks for a user",
        ))
    } else if addresses.iter().any(has_login) {
        Some((
            format!("`{key}`: the address contains a user, too"),
            "take the user and the password out of the address",
        ))
    } else if user.is_none() {
        Some((
            "`password_file` has no effect without `user`".to_owned(),
            "add the name of the user: user = \"admin\"",
        ))
    } else {
        None
    };
    if let Some((message, hint)) = problem {
        context.diagnostics.add(at, message, Some(hint.to_owned()));
        return None;
    }
    let user = user?;
    if user.value.is_empty() || user.value.contains(':') {
        let message = format!("`user` cannot be {:?}", user.value);
        let hint = "a name of a user has no colon; the password is in the file that `password_file` names";
        context.diagnostics.add(user.at, message, Some(hint.to_owned()));
        return None;
    }
    let Some(file) = file else {
        return Some(SourceLogin {
            user: user.value.clone(),
            password_file: None,
        });
    };
    let path = absolute(context.folder, &file.value);
    if !path.is_file() {
        let message = format!("`password_file`: there is no file {:?}", file.value);
        report_missing(&message, &path, file.at, context.diagnostics);
        return None;
    }
    Some(SourceLogin {
        user: user.value.clone(),
        password_file: Some(path),
    })
}

/// The absolute path of the file with a password that `[defaults]` names.
pub(super) fn default_password_file(defaults: &[Entry], folder: &Path) -> Option<PathBuf> {
    let entry = defaults.iter().find(|entry| entry.name == "password_file")?;
    match &entry.node.content {
        Content::Text(file) => Some(absolute(folder, file)),
        _ => None,
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
