//! Incidents to a web server, by POST: as event lines, by templates, or to a service that brings messages to phones.

mod address;
mod answer;
mod encoding;
mod form;
mod keys;
mod preset;
mod request;
mod signature;
mod template;
mod template_scan;
mod variables;

pub(super) use self::address::{Address, Receiver, token_fault};
pub(super) use self::encoding::shortened;
pub(super) use self::form::{fault, zone};
pub(super) use self::keys::CA_FILE;
pub(super) use self::request::{agent, checked_tls, is_unreached, read};
pub(super) use self::template::{Escape, Template, common_environment, json_of, rendered, text_of};
pub(super) use self::template_scan::{Tag, each_tag};

use std::path::PathBuf;

use weir_flow::{KeyFault, Settings, Sink, SinkError, SinkFactory};

use self::form::Form;
use self::request::HttpTransport;
use self::signature::Signer;
use super::event_sink::EventSink;
use super::outbox::Outbox;
use super::outbox_keys::outbox_options;
use super::{SinkKind, alarm_keys};

pub(super) const KIND: SinkKind = SinkKind {
    name: "webhook",
    about: "incidents to a web server or a phone, by POST, retried until the server has accepted them (docs/reference/webhooks.md)",
    keys: keys::KEYS,
    file_per_stream: false,
    create,
};

/// All faults of the keys; no file is read.
pub(super) fn faults(settings: &Settings) -> Vec<KeyFault> {
    let mut faults = alarm_keys::faults(settings);
    address::check(settings, &mut faults);
    check_signature(settings, &mut faults);
    Form::read(settings, &mut faults);
    faults
}

fn check_signature(settings: &Settings, faults: &mut Vec<KeyFault>) {
    let is_set = |key: &str| settings.text(key).is_some_and(|text| !text.is_empty());
    let has_secret = is_set("secret") || is_set("secret_file");
    if is_set("signature") && !has_secret {
        let message = "`signature` is without `secret` and `secret_file`";
        faults.push(fault("signature", message, "secret = \"${WEBHOOK_SECRET}\""));
    }
    if has_secret && is_set("preset") {
        let message = "`secret`: services for phones check no signature";
        faults.push(fault("secret", message, "leave it out"));
    }
    let inline = settings.text("secret").filter(|secret| !secret.is_empty());
    if let Some(Err(reason)) = inline.map(|secret| Signer::new(secret, is_standard(settings))) {
        faults.push(fault("secret", format!("`secret`: {reason}"), ""));
    }
}

fn is_standard(settings: &Settings) -> bool {
    settings.text("signature") == Some("standard")
}

fn create(settings: &Settings, _streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let faults = faults(settings);
    if !faults.is_empty() {
        return Err(alarm_keys::as_error("to a webhook", &faults));
    }
    let factory = WebhookFactory(settings.clone());
    factory.transport()?;
    Ok(Box::new(factory))
}

struct WebhookFactory(Settings);

impl WebhookFactory {
    /// The sender of requests. It contacts nothing before the first event.
    fn transport(&self) -> Result<HttpTransport, SinkError> {
        HttpTransport::new(Form::read(&self.0, &mut Vec::new()), &self.0)
    }
}

impl SinkFactory for WebhookFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let settings = &self.0;
        let form = Form::read(settings, &mut Vec::new());
        let outbox = Outbox::start("webhook", self.transport()?, outbox_options(settings)?)?;
        let sink = EventSink::new(outbox, settings, |_, _| String::new())?;
        Ok(Box::new(sink.with(form.updates(), form.has_pictures())))
    }

    fn targets(&self) -> Vec<PathBuf> {
        super::outbox_keys::path(&self.0).into_iter().collect()
    }
}
