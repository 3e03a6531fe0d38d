//! Addresses of web servers, of which messages show the host alone: the path may hold a token.

use base64::prelude::{BASE64_STANDARD, Engine};
use weir_flow::{KeyFault, Settings, SinkError, percent_decoded, split_login};

use super::super::secret::{Hidden, secret};
use super::form::fault;
use super::preset::{Account, Preset};

/// Scheme of user and password in a header.
const BASIC: &str = "Basic ";

/// Value of the header `Authorization` for user and password as an address has them, where both are percent-encoded (RFC 3986, 3.2.1;
/// RFC 7617).
fn basic(login: &str) -> String {
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    let pair = [percent_decoded(name), b":".to_vec(), percent_decoded(password)];
    format!("{BASIC}{}", BASE64_STANDARD.encode(pair.concat()))
}

/// Address of a web server.
#[derive(Debug, Clone)]
pub(in crate::sinks) struct Address {
    url: String,
    /// The address without user and password.
    place: String,
    /// Value of the header `Authorization` for the user and the password in the address.
    login: Option<String>,
    /// Scheme, host and port.
    pub(in crate::sinks) shown: String,
}

impl Address {
    /// # Errors
    /// The text is no address of a web server. The reason does not quote it.
    pub(in crate::sinks) fn parsed(url: &str) -> Result<Self, &'static str> {
        let parsed = url.parse::<ureq::http::Uri>().ok();
        let parsed = parsed.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
        let place = parsed.as_ref().and_then(|uri| {
            let host = uri.host().filter(|host| !host.is_empty())?;
            let port = uri.port().map_or_else(String::new, |port| format!(":{port}"));
            Some(format!("{}://{host}{port}", uri.scheme_str()?))
        });
        let shown = place.ok_or("it is no address of a web server: it begins with http:// or https://")?;
        let (login, place) = split_login(url).unwrap_or_else(|| (None, url.to_owned()));
        Ok(Self {
            url: url.to_owned(),
            place,
            login: login.filter(|login| !login.is_empty()).map(basic),
            shown,
        })
    }

    /// The address with the end of a path, without user and password.
    pub(in crate::sinks) fn with(&self, path: &str) -> String {
        if path.is_empty() {
            self.place.clone()
        } else {
            format!("{}{path}", self.place.trim_end_matches('/'))
        }
    }

    /// Value of the header `Authorization` for the user and the password in the address; `None` if it has no user.
    pub(in crate::sinks) fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    pub(in crate::sinks) fn is_encrypted(&self) -> bool {
        self.url
            .get(..8)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }

    /// Texts that messages must not show: the address, its user and its path.
    fn secrets(&self) -> Vec<String> {
        let behind = self.url.split_once("://").map_or("", |(_, behind)| behind);
        let end = behind.find(['/', '?']).unwrap_or(behind.len());
        let (authority, path) = behind.split_at(end);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        // A short part of a path may be a word of a message.
        let parts = path.split(['/', '?', '&', '=']).filter(|part| part.len() >= 8);
        let login = self.login.as_deref();
        let encoded = login.and_then(|login| login.strip_prefix(BASIC));
        let all = [self.url.as_str(), path, user]
            .into_iter()
            .chain(encoded)
            .chain(parts);
        all.map(str::to_owned).collect()
    }
}

/// Address and account, with the secrets that files hold.
#[derive(Debug)]
pub(in crate::sinks) struct Receiver {
    pub(in crate::sinks) address: Address,
    pub(super) account: Account,
    hidden: Hidden,
}

impl Receiver {
    /// Reads the address and the account from keys and files.
    ///
    /// # Errors
    /// A file cannot be read, or holds something else. No error shows a secret.
    pub(super) fn open(settings: &Settings) -> Result<Self, SinkError> {
        let failed = |reason: &str| SinkError {
            target: "to a webhook".to_owned(),
            reason: reason.to_owned(),
        };
        let preset = settings.text("preset").and_then(Preset::named);
        let url = secret(settings, "url", "url_file")?;
        let url = url.or_else(|| preset.and_then(Preset::url).map(str::to_owned));
        let url = url.ok_or_else(|| failed("it has no `url`: name the address to post to"))?;
        let address = Address::parsed(&url).map_err(|reason| failed(&format!("its address: {reason}")))?;
        let token = secret(settings, "token", "token_file")?;
        if let Some(reason) = token.as_deref().and_then(token_fault) {
            return Err(failed(reason));
        }
        let account = Account {
            token,
            topic: settings.text("topic").map(str::to_owned),
            chat: settings.text("chat").map(str::to_owned),
        };
        Ok(Self::new(
            address,
            account,
            secret(settings, "secret", "secret_file")?,
        ))
    }

    /// A server at an address, with the token that it knows clients by.
    pub(in crate::sinks) fn with_token(address: Address, token: Option<String>) -> Self {
        let account = Account {
            token,
            topic: None,
            chat: None,
        };
        Self::new(address, account, None)
    }

    fn new(address: Address, account: Account, secret: Option<String>) -> Self {
        let mut hidden = address.secrets();
        hidden.extend(account.token.clone());
        hidden.extend(account.topic.clone());
        hidden.extend(secret);
        hidden.retain(|text| !address.shown.contains(text.as_str()));
        Self {
            address,
            account,
            hidden: Hidden::new(hidden),
        }
    }

    /// The token of the client, if there is one.
    pub(in crate::sinks) fn token(&self) -> Option<&str> {
        self.account.token.as_deref()
    }

    /// A reason without secrets, behind the host.
    pub(in crate::sinks) fn said(&self, reason: &str) -> String {
        format!("{}: {}", self.address.shown, self.hidden.hide(reason))
    }
}

/// Checks the keys of address and account, without their files.
pub(super) fn check(settings: &Settings, faults: &mut Vec<KeyFault>) {
    let preset = settings.text("preset").and_then(Preset::named);
    let is_set = |key: &str| settings.text(key).is_some_and(|text| !text.is_empty());
    let is_there = |key: &str| is_set(key) || is_set(&format!("{key}_file"));
    let has_default = preset.and_then(Preset::url).is_some();
    if is_set("url") {
        let url = settings.text("url").unwrap_or_default();
        if let Err(reason) = Address::parsed(url) {
            faults.push(fault("url", format!("`url`: {reason}"), ""));
        } else if url.contains(['?', '#']) && preset.is_some_and(|preset| !preset.required().is_empty()) {
            let message = "`url`: it has a query, and the preset adds a path";
            faults.push(fault("url", message, "name the address of the server alone"));
        }
    } else if !is_there("url") && !has_default {
        let hint = "name the address to post to: url = \"https://...\", or a file with it by `url_file`";
        faults.push(fault("url", "it has no `url`", hint));
    }
    for key in ["topic", "chat", "token"] {
        let is_required = preset.is_some_and(|preset| preset.required().contains(&key));
        if is_required && !is_there(key) {
            let message = format!("the preset needs `{key}`");
            faults.push(fault(key, message, account_hint(key)));
        }
        let has_meaning = preset.map_or(key == "token", |preset| preset.has(key));
        if is_there(key) && !has_meaning {
            let message = format!("`{key}` has no meaning here");
            faults.push(fault(
                key,
                message,
                "leave it out, or name the `preset` that it is for",
            ));
        }
    }
    let topic = settings.text("topic").unwrap_or_default();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if topic.len() > 64 || !topic.bytes().all(fits) {
        let hint = "letters, digits, - and _, 64 at most";
        faults.push(fault("topic", "`topic` is no topic of ntfy", hint));
    }
    if let Some(reason) = settings.text("token").and_then(token_fault) {
        faults.push(fault("token", reason, ""));
    }
}

fn account_hint(key: &str) -> &'static str {
    match key {
        "topic" => "topic = \"${NTFY_TOPIC}\"",
        "chat" => "chat = \"${TELEGRAM_CHAT}\", the number of the chat or the @name of a channel",
        _ => "token = \"${TOKEN}\", or a file with it by `token_file`",
    }
}

/// The fault of a token that no address and no header can hold.
pub(in crate::sinks) fn token_fault(token: &str) -> Option<&'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:".contains(&byte);
    (!token.bytes().all(fits)).then_some("the token has characters that no token has")
}

#[cfg(test)]
mod tests {
    use weir_flow::Value;

    use super::*;

    #[test]
    fn reasons_show_the_host_and_no_secret() {
        let keys = [
            ("preset", "telegram"),
            ("token", "123456:AAsecret"),
            ("chat", "-100123"),
            ("url", "https://me:passwd@api.example:8443/base/"),
        ];
        let keys = keys.map(|(key, text)| (key.to_owned(), Value::Text(text.to_owned())));
        let receiver = Receiver::open(&Settings(keys.into())).expect("keys");
        let said = receiver.said(
            "POST https://me:passwd@api.example:8443/base/bot123456:AAsecret/sendMessage failed at /base/",
        );
        assert!(said.starts_with("https://api.example:8443: POST "), "{said}");
        for secret in ["AAsecret", "passwd", "/base"] {
            assert!(!said.contains(secret), "{said}");
        }
        assert_eq!(
            receiver.address.with("/bot1/sendPhoto"),
            "https://api.example:8443/base/bot1/sendPhoto"
        );
    }

    #[test]
    fn user_and_password_of_an_address_are_decoded_for_the_header() {
        let login = |url: &str| {
            let address = Address::parsed(url).expect("an address");
            (address.with(""), address.login().map(str::to_owned))
        };
        let place = "https://host:8443/hook?a=b".to_owned();
        // RFC 7617 has the second one as its example.
        for (written, expected) in [
            ("me:p%40ss%2F1", "Basic bWU6cEBzcy8x"),
            ("Aladdin:open%20sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("me:a:b", "Basic bWU6YTpi"),
            ("me", "Basic bWU6"),
            ("me:100%", "Basic bWU6MTAwJQ=="),
        ] {
            let url = format!("https://{written}@host:8443/hook?a=b");
            assert_eq!(login(&url), (place.clone(), Some(expected.to_owned())), "{url}");
        }
        assert_eq!(login(&place), (place.clone(), None));
        assert_eq!(login("http://host/@me:x"), ("http://host/@me:x".to_owned(), None));
    }
}
