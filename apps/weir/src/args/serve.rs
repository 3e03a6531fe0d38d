//! Arguments of `weir serve`.

use std::path::PathBuf;

use clap::Args as Group;
use weir_serve::{AccessOptions, BasePath, Network, ProxyOptions, Role, TlsFiles, TokensFile};

use super::values::listen;
use super::{DEFAULT_API, RunArgs};
use crate::error::UserError;
use crate::service::token;

/// `weir serve`.
#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Graph to run
    #[arg(value_name = "GRAPH.toml")]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) run_args: RunArgs,
    /// Address of the API, as a name or an IP address; port 0 picks a free port, which is printed
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_API, value_parser = listen)]
    pub(crate) listen: String,
    /// File with the token that clients must send, readable by its owner only; or set WEIR_API_TOKEN.
    /// Required if other machines can reach the address
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let API clients name any source: files outside the graph's folder, devices, any FFmpeg address
    #[arg(long)]
    pub(crate) allow_any_source: bool,
    /// Reload the graph when its file changes (default; disable with --no-watch)
    #[arg(long, conflicts_with = "no_watch")]
    pub(crate) watch: bool,
    /// Do not watch the graph file; changes are loaded on SIGHUP only
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// File with several tokens, each with a name and a role, readable by its owner only; read again when it changes
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) tokens_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) proxy: ProxyArgs,
    /// Certificate of the server as PEM, with those up to its authority; read again when it is renewed
    #[arg(long, value_name = "FILE.pem", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate as PEM
    #[arg(long, value_name = "FILE.pem", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// Reverse proxies in front of the API.
#[derive(Debug, Group)]
pub(crate) struct ProxyArgs {
    /// Path below which a reverse proxy serves the API and the page; the proxy may remove the path or not
    #[arg(long, value_name = "/PATH", default_value = "/", hide_default_value = true)]
    pub(crate) base_path: BasePath,
    /// Address or network of a reverse proxy whose headers are believed; may be repeated
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<Network>,
    /// Header in which the proxy names the user that it has authenticated, such as X-Forwarded-User
    #[arg(long, value_name = "HEADER", requires = "trusted_proxy", value_parser = header)]
    pub(crate) proxy_user_header: Option<String>,
    /// Header in which the proxy names the groups of the user, separated by commas
    #[arg(long, value_name = "HEADER", requires = "proxy_user_header", value_parser = header)]
    pub(crate) proxy_groups_header: Option<String>,
    /// Role of users of the proxy (view, operate, edit), or of a group of them; may be repeated
    #[arg(long, value_name = "[GROUP=]ROLE", requires = "proxy_user_header", value_parser = proxy_role)]
    pub(crate) proxy_role: Vec<ProxyRole>,
}

/// Role of a group of users, or of all users without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxyRole {
    group: Option<String>,
    role: Role,
}

fn proxy_role(text: &str) -> Result<ProxyRole, String> {
    let (group, role) = match text.rsplit_once('=') {
        Some((group, role)) => (Some(group.to_owned()), role),
        None => (None, text),
    };
    Ok(ProxyRole {
        group,
        role: role.parse()?,
    })
}

/// Name of a header, as HTTP allows it.
fn header(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !text.is_empty() && text.bytes().all(is_plain) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("write the name of a header, such as X-Forwarded-User".to_owned())
}

impl Serve {
    /// Reads the tokens; returns the clients that may ask.
    ///
    /// # Errors
    /// A token or a file of tokens that cannot be used.
    pub(crate) fn access(&self) -> anyhow::Result<AccessOptions> {
        let tokens = self.tokens_file.as_deref().map(TokensFile::open).transpose();
        let proxy = &self.proxy;
        let roles = proxy.proxy_role.iter();
        let of_groups = roles
            .clone()
            .filter_map(|given| Some((given.group.clone()?, given.role)));
        Ok(AccessOptions {
            token: token(self.token_file.as_deref())?,
            tokens: tokens.map_err(|error| UserError::new(error.to_string()))?,
            proxy: ProxyOptions {
                trusted: proxy.trusted_proxy.clone(),
                user_header: proxy.proxy_user_header.clone(),
                groups_header: proxy.proxy_groups_header.clone(),
                group_roles: of_groups.collect(),
                default_role: roles
                    .filter(|given| given.group.is_none())
                    .map(|given| given.role)
                    .max(),
            },
        })
    }

    /// Returns the files of TLS, if there are any.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificate: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
        })
    }
}
