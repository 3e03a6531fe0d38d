//! Access control: the client that a request comes from. If the server has tokens or a proxy that authenticates, requests must carry
//! a token, the cookie of a session or the user of that proxy; only `/healthz` and the files of the page need none. Otherwise the
//! header `Host` must name this machine. Pages of other sites may change nothing.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use tokio::time::Instant;

use crate::accounts::{Accounts, TokensFile};
use crate::digest::Digest;
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::proxy::ProxyOptions;
use crate::role::{Identity, Role};
use crate::session::Sessions;
use crate::token::Token;

/// Clients that may ask: by a token, by a token of a file, by a proxy. With none of these, those of this machine.
#[derive(Debug, Default)]
pub struct AccessOptions {
    /// Token with the role `edit`.
    pub token: Option<Token>,
    /// Tokens with names and roles.
    pub tokens: Option<TokensFile>,
    /// Reverse proxies in front of the server.
    pub proxy: ProxyOptions,
}

impl AccessOptions {
    /// True if clients must show who they are.
    #[must_use]
    pub fn authenticates(&self) -> bool {
        self.token.is_some() || self.tokens.is_some() || self.proxy.authenticates()
    }
}

/// Means by which a client has shown who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// None: any client of this machine may ask.
    Open,
    /// A token with this digest.
    Token(Digest),
    /// The cookie of a session, opened with the token with this digest.
    Session(Digest),
    /// A trusted proxy.
    Proxy,
}

impl Means {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Token(_) => "token",
            Self::Session(_) => "session",
            Self::Proxy => "proxy",
        }
    }
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) identity: Arc<Identity>,
    pub(crate) means: Means,
}

/// A request, as far as access depends on it.
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    /// Address of the connection.
    pub(crate) peer: IpAddr,
}

/// See the module.
pub(crate) struct Access {
    accounts: Accounts,
    proxy: ProxyOptions,
    pub(crate) sessions: Sessions,
    /// Name of the cookie of a session; it has the port, since cookies of one host are shared by all ports.
    cookie: String,
    /// Path below which browsers send the cookie.
    cookie_path: String,
    is_tls: bool,
    /// Identity of clients of this machine where no client needs a token.
    local: Arc<Identity>,
}

impl Access {
    pub(crate) fn new(options: AccessOptions, port: u16, base_path: &str, is_tls: bool) -> Self {
        Self {
            accounts: Accounts::new(options.token.as_ref(), options.tokens),
            proxy: options.proxy,
            sessions: Sessions::default(),
            cookie: format!("weir-session-{port}"),
            cookie_path: if base_path.is_empty() { "/" } else { base_path }.to_owned(),
            is_tls,
            local: Arc::new(Identity::new("local", Role::Edit)),
        }
    }

    /// True if clients must show who they are.
    pub(crate) fn authenticates(&self) -> bool {
        self.accounts.has_tokens() || self.proxy.authenticates()
    }

    /// True if a client can show a token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.accounts.has_tokens()
    }

    /// Returns the client that a request comes from.
    ///
    /// # Errors
    /// [`ApiError`] with the reason: status 401 for a missing or wrong token, 403 for a request that a page of another site
    /// makes, or a user without a role.
    pub(crate) fn client(&self, head: &Head<'_>) -> Result<Client, ApiError> {
        if !self.authenticates() {
            check_local(head)?;
            return Ok(Client {
                identity: Arc::clone(&self.local),
                means: Means::Open,
            });
        }
        if self.proxy.trusts(head.peer)
            && let Some(user) = self.proxy.user(head.headers)?
        {
            self.check_same_origin(head, false)?;
            return Ok(Client {
                identity: Arc::new(user),
                means: Means::Proxy,
            });
        }
        let given = head
            .headers
            .get(header::AUTHORIZATION)
            .map(|value| value.as_bytes());
        let given = given.and_then(bearer);
        if let Some(given) = given {
            return self.client_of_token(given).ok_or_else(|| {
                let what = "this engine does not know the token: send the one that it was started with, or one of its token file";
                unauthorized(what).code(ErrorCode::TokenWrong, [])
            });
        }
        let session = self
            .cookie_of(head.headers)
            .and_then(|secret| self.client_of_session(secret));
        if let Some(client) = session {
            self.check_same_origin(head, true)?;
            return Ok(client);
        }
        Err(unauthorized("this engine needs a token").code(ErrorCode::TokenMissing, []))
    }

    /// Returns the client that sends this token, if the token is known.
    pub(crate) fn client_of_token(&self, token: &[u8]) -> Option<Client> {
        let digest = Digest::of(token);
        Some(Client {
            identity: self.accounts.find(&digest)?,
            means: Means::Token(digest),
        })
    }

    /// A session has the rights that its token has now; without the token, it has none.
    fn client_of_session(&self, secret: &str) -> Option<Client> {
        let token = self.sessions.token(secret, Instant::now())?;
        Some(Client {
            identity: self.accounts.find(&token)?,
            means: Means::Session(token),
        })
    }

    /// True if the token of a client still has the rights that it had when the client was identified.
    pub(crate) fn is_current(&self, client: &Client) -> bool {
        match client.means {
            Means::Open | Means::Proxy => true,
            Means::Token(token) | Means::Session(token) => {
                self.accounts.find(&token).as_deref() == Some(&*client.identity)
            }
        }
    }

    /// Returns the secret of the session in the cookies of a request.
    pub(crate) fn cookie_of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let mut pairs = cookies
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'));
        pairs.find_map(|pair| pair.trim().strip_prefix(&*self.cookie)?.strip_prefix('='))
    }

    /// Returns the header that sets the cookie of a session in a browser, or removes it (`max_age_s` 0).
    pub(crate) fn set_cookie(&self, head: &Head<'_>, secret: &str, max_age_s: Option<u64>) -> String {
        let forwarded = head
            .headers
            .get("x-forwarded-proto")
            .and_then(|value| value.to_str().ok());
        let is_https = forwarded.is_some_and(|list| first(list).eq_ignore_ascii_case("https"));
        let is_secure = self.is_tls || (self.proxy.trusts(head.peer) && is_https);
        let max_age = max_age_s.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
        format!(
            "{}={secret}; Path={}; HttpOnly; SameSite=Strict{max_age}{}",
            self.cookie,
            self.cookie_path,
            if is_secure { "; Secure" } else { "" }
        )
    }

    /// Returns the address that a request came from, behind trusted proxies.
    pub(crate) fn address(&self, head: &Head<'_>) -> IpAddr {
        self.proxy.client(head.peer, head.headers)
    }

    /// Refuses a change by a browser that a page of another site asks for: cookies, and what a proxy knows of a browser, go along
    /// with each request. With `must_say`, a request that does not say which page makes it is refused.
    fn check_same_origin(&self, head: &Head<'_>, must_say: bool) -> Result<(), ApiError> {
        if head.method.is_safe() {
            return Ok(());
        }
        let text = |name: &str| {
            head.headers
                .get(name)
                .map(|value| value.to_str().unwrap_or_default())
        };
        if let Some(site) = text("sec-fetch-site") {
            return if site == "same-origin" {
                Ok(())
            } else {
                Err(other_site())
            };
        }
        let Some(origin) = text("origin") else {
            return if must_say {
                Err(other_site().hint("send the token as Authorization: Bearer TOKEN"))
            } else {
                Ok(())
            };
        };
        let forwarded = text("x-forwarded-host").filter(|_| self.proxy.trusts(head.peer));
        let forwarded = forwarded.map(first);
        let hosts = [forwarded, host(head)];
        let origin = origin.split_once("://").map(|(_, host)| host);
        if origin.is_some() && hosts.contains(&origin) {
            Ok(())
        } else {
            Err(other_site())
        }
    }
}

/// The first of a list to which each proxy of a chain has added its own: what the client asked for.
fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default().trim()
}

/// The token in a header `Authorization` with the scheme `Bearer`, whose name has no case (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn unauthorized(what: &str) -> ApiError {
    ApiError::with_status(StatusCode::UNAUTHORIZED, what).hint("send the header Authorization: Bearer TOKEN")
}

fn other_site() -> ApiError {
    ApiError::with_status(
        StatusCode::FORBIDDEN,
        "pages of other sites cannot change anything on this engine",
    )
    .code(ErrorCode::OtherSite, [])
}

fn host<'a>(head: &Head<'a>) -> Option<&'a str> {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| head.uri.authority().map(|authority| authority.as_str()))
}

/// A page of another site can make a browser ask this machine: under a name of its own, which is then in `Host`, or from
/// its own origin, which is then in `Origin`.
fn check_local(head: &Head<'_>) -> Result<(), ApiError> {
    let host = host(head);
    if !host.is_some_and(is_local) {
        let error = ApiError::with_status(
            StatusCode::FORBIDDEN,
            "the header Host does not name this machine",
        );
        return Err(error.hint("ask for 127.0.0.1 or localhost, or start the engine with --token-file"));
    }
    let origin = head.headers.get(header::ORIGIN);
    let origin = origin.map(|origin| origin.to_str().unwrap_or_default());
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, of)| Some(of) == host);
    if !head.method.is_safe() && !origin.is_none_or(own) {
        return Err(other_site());
    }
    Ok(())
}

/// Whether `HOST[:PORT]` is this machine.
fn is_local(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_known() {
        for local in [
            "localhost",
            "LOCALHOST:7400",
            "127.0.0.1:7400",
            "[::1]:7400",
            "127.1.2.3",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in [
            "example.org",
            "127.0.0.1.example.org:7400",
            "10.0.0.1",
            "",
            ":7400",
            "localhost.example",
        ] {
            assert!(!is_local(other), "{other}");
        }
    }

    /// Client of a request with these headers to a server with the token `0123456789abcdef`, behind a proxy at 127.0.0.2.
    fn client(
        access: &Access,
        method: &Method,
        peer: &str,
        headers: &[(&str, &str)],
    ) -> Result<Client, ApiError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: header::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        access.client(&Head {
            method,
            uri: &Uri::from_static("/api/state"),
            headers: &map,
            peer: peer.parse().unwrap(),
        })
    }

    fn access() -> Access {
        let options = AccessOptions {
            token: Some(Token::parse("0123456789abcdef", "a test").unwrap()),
            tokens: None,
            proxy: ProxyOptions {
                trusted: vec!["127.0.0.2".parse().unwrap()],
                user_header: Some("x-forwarded-user".to_owned()),
                default_role: Some(Role::View),
                ..ProxyOptions::default()
            },
        };
        Access::new(options, 7_400, "/weir", false)
    }

    #[test]
    fn headers_of_a_proxy_are_believed_from_its_address_only() {
        let access = access();
        let user = [("x-forwarded-user", "anna")];
        let of_proxy = client(&access, &Method::GET, "127.0.0.2", &user).unwrap();
        assert_eq!((&*of_proxy.identity.name, of_proxy.means), ("anna", Means::Proxy));
        assert!(client(&access, &Method::GET, "127.0.0.1", &user).is_err());
        assert!(client(&access, &Method::GET, "127.0.0.2", &[]).is_err());
        let foreign = [
            user[0],
            ("origin", "https://evil.example"),
            ("host", "weir.example"),
        ];
        assert!(client(&access, &Method::POST, "127.0.0.2", &foreign).is_err());
        let own = [
            user[0],
            ("origin", "https://weir.example"),
            ("x-forwarded-host", "weir.example"),
        ];
        assert!(client(&access, &Method::POST, "127.0.0.2", &own).is_ok());
        for (hosts, is_own) in [
            ("weir.example, proxy.example", true),
            ("proxy.example, weir.example", false),
        ] {
            let chain = [own[0], own[1], ("x-forwarded-host", hosts)];
            let allowed = client(&access, &Method::POST, "127.0.0.2", &chain);
            assert_eq!(allowed.is_ok(), is_own, "{hosts}");
        }
    }

    #[test]
    fn changes_by_a_cookie_must_come_from_a_page_of_this_engine() {
        let access = access();
        let token = access.client_of_token(b"0123456789abcdef").unwrap();
        let Means::Token(digest) = token.means else {
            panic!("{:?}", token.means);
        };
        let opened = access.sessions.open(digest, false, Instant::now()).unwrap();
        let cookie = format!("other=1; weir-session-7400={}", opened.secret);
        let cookie = ("cookie", &*cookie);
        let ask = |method: &Method, headers: &[(&str, &str)]| {
            client(&access, method, "10.0.0.1", headers).map(|client| client.means)
        };
        assert_eq!(ask(&Method::GET, &[cookie]).unwrap(), Means::Session(digest));
        assert!(access.is_current(&token));
        let removed = Client {
            means: Means::Session(Digest::of(b"removed")),
            ..token
        };
        assert!(!access.is_current(&removed));
        let host = ("host", "box:7400");
        assert!(ask(&Method::POST, &[cookie, host]).is_err());
        assert!(ask(&Method::POST, &[cookie, host, ("origin", "http://box:7400")]).is_ok());
        assert!(ask(&Method::POST, &[cookie, host, ("sec-fetch-site", "same-origin")]).is_ok());
        for wrong in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(ask(&Method::POST, &[cookie, host, wrong]).is_err(), "{wrong:?}");
        }
        access.sessions.close(&opened.secret);
        assert!(ask(&Method::GET, &[cookie]).is_err());
    }

    #[test]
    fn cookie_is_secure_behind_tls_only() {
        let access = access();
        let with = |peer: &str, proto: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", proto.parse().unwrap());
            let head = Head {
                method: &Method::POST,
                uri: &Uri::from_static("/api/session"),
                headers: &headers,
                peer: peer.parse().unwrap(),
            };
            access.set_cookie(&head, "s", Some(60))
        };
        let plain = "weir-session-7400=s; Path=/weir; HttpOnly; SameSite=Strict; Max-Age=60";
        assert_eq!(with("127.0.0.2", "http"), plain);
        assert_eq!(with("10.0.0.1", "https"), plain);
        for of_chain in ["https", "https, http", "HTTPS,https"] {
            assert_eq!(
                with("127.0.0.2", of_chain),
                format!("{plain}; Secure"),
                "{of_chain}"
            );
        }
        assert_eq!(with("127.0.0.2", "http, https"), plain);
    }
}
