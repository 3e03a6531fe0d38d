//! Addresses of a source: its main stream, and the smaller stream of the same pictures that its frames may
//! come from.

use std::borrow::Cow;

use weir_config::{Field, Fields, Spanned, absolute, report_missing};
use weir_flow::mask_credentials;

use super::context::Context;
use super::emulated;
use crate::emulated::EmulatedStream;
use crate::sources::Sources;

/// The addresses of a source; `None` where one is missing or wrong, which is reported.
pub(super) struct Addresses {
    pub(super) uri: Option<String>,
    /// Address of the stream that its frames come from, if it is another one.
    pub(super) detect: Option<String>,
}

impl Addresses {
    pub(super) fn is_emulated(&self) -> bool {
        let uri = self.uri.as_ref();
        uri.is_some_and(|uri| uri.starts_with(EmulatedStream::SCHEME))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.uri.iter().chain(&self.detect).map(String::as_str)
    }
}

/// Reads them, of which `uri` was read.
pub(super) fn read(uri: &Field<String>, fields: &Fields<'_>, context: &mut Context<'_>) -> Addresses {
    let uri = uri.given().and_then(|uri| resolve("uri", uri, context));
    let mut addresses = Addresses { uri, detect: None };
    let detect = fields.text("detect_uri", context.diagnostics);
    let Some(detect) = detect.given() else {
        return addresses;
    };
    if detect.value.starts_with(EmulatedStream::SCHEME) || addresses.is_emulated() {
        let message =
            "`detect_uri` is the smaller stream of a camera or a recording, not of an emulated stream";
        let hint = Some("leave it out: frames come from `uri` then".to_owned());
        context.diagnostics.add(detect.at, message, hint);
        return addresses;
    }
    addresses.detect = resolve("detect_uri", detect, context);
    addresses
}

/// Resolves an address: local paths become absolute, and must exist where they are going to be read.
fn resolve(key: &str, uri: &Spanned<String>, context: &mut Context<'_>) -> Option<String> {
    let (text, at) = (&uri.value, uri.at);
    if text.starts_with(EmulatedStream::SCHEME) {
        return emulated::read(uri, context);
    }
    if let Some((raw, code)) = weir_flow::raw_in_password(text) {
        let message = format!(
            "`{key}`: the password of {} contains a `{raw}`, which ends the password",
            mask_credentials(text)
        );
        let hint = Some(format!(
            "write {code} for it, or take the password from a variable: ${{PASSWORD}}"
        ));
        context.diagnostics.add(at, message, hint);
        return None;
    }
    if let Some((problem, hint)) = weir_flow::host_problem(text) {
        let message = format!("`{key}`: {} {problem}", mask_credentials(text));
        context.diagnostics.add(at, message, Some(hint.to_owned()));
        return None;
    }
    if text.contains("://") {
        return Some(weir_flow::with_small_scheme(text).into_owned());
    }
    if let Cow::Owned(shown) = mask_credentials(text) {
        let hint = Some("addresses have two slashes after the colon: rtsp://camera/stream".to_owned());
        let message = format!("`{key}`: \"{shown}\" is not an address");
        context.diagnostics.add(at, message, hint);
        return None;
    }
    let path = absolute(context.folder, text);
    if path.exists() || context.sources == Sources::Replaced {
        return path.to_str().map(str::to_owned);
    }
    let message = format!("`{key}`: there is no file or folder \"{text}\"");
    report_missing(&message, &path, at, context.diagnostics);
    None
}
