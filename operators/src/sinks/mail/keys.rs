//! Keys of mails.

use weir_flow::{KeyKind, KeySpec};

use super::super::{alarm_keys, event_sink, key, outbox_keys, tls};

pub(super) const KEYS: &[KeySpec] = &[
    key(
        "server",
        KeyKind::Text,
        "name or address of the mail server that takes mails of `user` (required)",
    ),
    key(
        "port",
        KeyKind::Integer { min: 1, max: 65_535 },
        "its port (default 465, with `security = \"starttls\"` 587, with `\"none\"` 25)",
    ),
    key(
        "security",
        KeyKind::OneOf(&["tls", "starttls", "none"]),
        "`tls`: encrypted from the first byte; `starttls`: encrypted before anything is sent; `none`: only for a server on this machine (default `\"tls\"`)",
    ),
    tls::CA_FILE,
    key(
        "user",
        KeyKind::Text,
        "user that the server knows; without it no user is named",
    ),
    key("password", KeyKind::Text, "password, as `\"${MAIL_PASSWORD}\"`"),
    key(
        "password_file",
        KeyKind::File,
        "file that holds the password, instead of `password`",
    ),
    key(
        "from",
        KeyKind::Text,
        "address of the sender, as `\"weir@example.org\"` or `\"Weir <weir@example.org>\"` (required)",
    ),
    key(
        "to",
        KeyKind::Texts,
        "addresses of the recipients, 32 at most; each of them reads the others (required)",
    ),
    key(
        "subject",
        KeyKind::Text,
        "template of the subject (default `\"{{ title }}\"`)",
    ),
    key(
        "body",
        KeyKind::Text,
        "template of the text (default `\"{{ text }}\"`)",
    ),
    key(
        "attach",
        KeyKind::OneOf(&["picture"]),
        "`picture`: attaches the picture of an incident (default no picture)",
    ),
    key(
        "thread",
        KeyKind::OneOf(&["incident", "rule", "camera"]),
        "mails that mail programs show as one conversation: those of an incident, of a rule of a camera or of a camera (default `\"incident\"`)",
    ),
    key(
        "updates",
        KeyKind::Flag,
        "sends an incident again as it changes and ends; false: once (default false)",
    ),
    event_sink::TRACKS,
    event_sink::DESCRIPTIONS,
    key(
        "timeout",
        KeyKind::Duration,
        "timeout of one attempt (default `\"10s\"`)",
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
