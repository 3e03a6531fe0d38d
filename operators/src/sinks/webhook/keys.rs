//! Keys of webhooks.

use weir_flow::{KeyKind, KeySpec};

use super::super::{alarm_keys, event_sink, key, outbox_keys};
use super::preset;

pub(in crate::sinks) const CA_FILE: KeySpec = key(
    "ca_file",
    KeyKind::File,
    "certificates of the trusted authorities, as PEM, for an address with `https://` (default those that Mozilla trusts)",
);

pub(super) const KEYS: &[KeySpec] = &[
    key(
        "url",
        KeyKind::Text,
        "address to post to: `http://` or `https://` (required; with `preset = \"ntfy\"` and `\"telegram\"` by default that of the service)",
    ),
    key(
        "url_file",
        KeyKind::File,
        "file that holds the address, instead of `url`, for an address that is a secret",
    ),
    key(
        "preset",
        KeyKind::OneOf(preset::NAMES),
        "service for messages to phones; without it the body is the event line, or `body`",
    ),
    key(
        "topic",
        KeyKind::Text,
        "topic of ntfy, as `\"${NTFY_TOPIC}\"`: who knows it reads all messages (required with `preset = \"ntfy\"`)",
    ),
    key(
        "chat",
        KeyKind::Text,
        "number or `@name` of a chat of Telegram (required with `preset = \"telegram\"`)",
    ),
    key(
        "token",
        KeyKind::Text,
        "token of Telegram's bot, Gotify's application or ntfy's user, as `\"${TELEGRAM_TOKEN}\"`; without `preset` it is sent as `Authorization: Bearer`",
    ),
    key(
        "token_file",
        KeyKind::File,
        "file that holds the token, instead of `token`",
    ),
    key(
        "body",
        KeyKind::Text,
        "template of the body, or with `preset` of the text of the message (default the event line as JSON, or `\"{{ text }}\"`)",
    ),
    key(
        "headers",
        KeyKind::Texts,
        "further headers, each a name and a template, such as `[\"Priority: high\", \"Tags: {{ class }}\"]`",
    ),
    key(
        "attach",
        KeyKind::OneOf(&["picture", "picture-body"]),
        "`picture`: sends the picture of an incident, too, as a part of the body or as the service takes it; `picture-body`: the picture is the whole body (default no picture)",
    ),
    key(
        "updates",
        KeyKind::Flag,
        "sends an incident again as it changes and ends; false: once (default true, with `preset` and `group_wait` false)",
    ),
    key(
        "secret",
        KeyKind::Text,
        "key of the signature, as `\"${WEBHOOK_SECRET}\"`; without it nothing is signed",
    ),
    key(
        "secret_file",
        KeyKind::File,
        "file that holds the key, instead of `secret`",
    ),
    key(
        "signature",
        KeyKind::OneOf(&["weir", "standard"]),
        "form of the signature: `weir` in `X-Weir-Signature`, `standard` as Standard Webhooks have it (default `\"weir\"`)",
    ),
    CA_FILE,
    event_sink::TRACKS,
    event_sink::DESCRIPTIONS,
    key(
        "timeout",
        KeyKind::Duration,
        "timeout of one attempt (default `\"5s\"`)",
    ),
    alarm_keys::COOLDOWN,
    alarm_keys::GROUP_WAIT,
    alarm_keys::QUIET_HOURS,
    alarm_keys::QUIET_DAYS,
    alarm_keys::QUIET_EXCEPT,
    alarm_keys::TIMEZONE,
    outbox_keys::PATH,
    outbox_keys::DEAD_LETTER_BYTES,
    outbox_keys::QUEUE,
    outbox_keys::GIVE_UP_AFTER,
];
