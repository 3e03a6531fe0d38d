//! `weir serve`: a graph until it is asked to end, with its API.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use weir_serve::{MAX_CONNECTIONS, ServeError, ServeOptions, Server};

use crate::args::Serve;
use crate::error::UserError;
use crate::launch::{LaunchOptions, serve as serve_graph, writes_lines};
use crate::service::Service;
use crate::settings::Settings;
use crate::zoo::Zoo;
use crate::{catalog, output, zoo};

/// Runs a graph until Ctrl-C or SIGTERM; what is in flight comes out.
///
/// # Errors
/// As `weir run`; an address that is not to be had, or that needs a token.
pub(crate) fn serve(args: Serve, settings: &Settings, zoo: &Zoo) -> anyhow::Result<()> {
    let access = args.access()?;
    let listen = resolve(&args.listen)?;
    let graph = catalog::load(&args.graph, zoo)?;
    zoo::require(&graph, zoo)?;
    if !listen.ip().is_loopback() && graph.stream_places().allows_any_host() && !args.allow_any_source {
        output::remark(
            "clients can add streams of any host: name those of the cameras in `stream_hosts` of [app] unless all clients are trusted",
        );
    }
    let service = Arc::new(Service::new(&args.graph, args.allow_any_source, zoo.clone())?);
    // Before the engine, which takes time to be ready: so clients can see that.
    let options = ServeOptions {
        listen,
        access,
        base_path: args.proxy.base_path.clone(),
        tls: args.tls(),
        max_connections: MAX_CONNECTIONS,
    };
    let server = Server::start(options, Arc::clone(&service) as _);
    let server = server.map_err(|error| match error {
        ServeError::Thread(_) => anyhow::Error::from(error),
        error => UserError::new(error.to_string()).into(),
    })?;
    // Said once the graph has started: what supervises the service may rely on it.
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let listening = format!("listening on {scheme}://{}", server.address());
    let to_errors = writes_lines(&graph);
    let on_started = move || -> anyhow::Result<()> {
        if to_errors {
            output::remark(&listening);
            return Ok(());
        }
        output::say(&listening)
    };
    let options = LaunchOptions {
        graph_file: Some(args.graph),
        ..LaunchOptions::for_graph(args.run_args)
    };
    serve_graph(
        graph,
        &options,
        (&service, &on_started),
        !args.no_watch,
        settings,
        zoo,
    )
}

fn resolve(listen: &str) -> Result<SocketAddr, UserError> {
    let mut addresses = listen
        .to_socket_addrs()
        .map_err(|error| UserError::new(format!("--listen {listen}: {error}")))?;
    let none = || UserError::new(format!("--listen {listen}: the name has no address"));
    addresses.next().ok_or_else(none)
}
