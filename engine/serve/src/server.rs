//! The server on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::access::{Access, AccessOptions};
use crate::audit::Audit;
use crate::backend::Backend;
use crate::clip::Clips;
use crate::connections::{BoundedListener, Peer};
use crate::error::ApiError;
use crate::infer::PicturePlaces;
use crate::live::Watched;
use crate::page;
use crate::requests::Api;
use crate::routes::routes;
use crate::tls::{Tls, TlsError, TlsFiles};

/// Requests that the backend carries out side by side; further ones wait.
const MAX_BLOCKING: usize = 8;

/// Longest path of a reverse proxy, in bytes.
const MAX_BASE_PATH_BYTES: usize = 256;

/// Timeout for requests that are in progress when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Address, access control and bounds of a server.
#[derive(Debug)]
pub struct ServeOptions {
    /// Address to listen on; with port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// Clients that may ask; some means of authentication is required unless `listen` is a loopback address.
    pub access: AccessOptions,
    /// Path below which a reverse proxy serves the API and the page.
    pub base_path: BasePath,
    /// Certificate for TLS; `None`: connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Connections at a time, such as [`MAX_CONNECTIONS`](crate::MAX_CONNECTIONS).
    pub max_connections: usize,
}

/// Path below which a reverse proxy serves the API, such as `/weir`; empty: at the root. Requests are answered with the path and
/// without, so that the proxy may remove the path or not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BasePath(String);

impl FromStr for BasePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.trim_end_matches('/');
        let is_segment = |segment: &str| {
            let is_plain =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
            !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(is_plain)
        };
        let mut segments = path.split('/');
        if segments.next() == Some("") && path.len() <= MAX_BASE_PATH_BYTES && segments.all(is_segment) {
            return Ok(Self(path.to_owned()));
        }
        Err(format!("\"{text}\" is no path: write one such as /weir"))
    }
}

/// Error of starting a server.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is open to other machines.
    #[error(
        "other machines can reach {0}, so it needs a token: give --token-file FILE, --tokens-file FILE or WEIR_API_TOKEN, or \
         listen on 127.0.0.1"
    )]
    TokenMissing(SocketAddr),
    /// The address is not to be had.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// Address to listen on.
        address: SocketAddr,
        /// Reason, from the operating system.
        reason: io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The machine gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A server that answers. Stopped when it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer for `backend`.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn start(options: ServeOptions, backend: Arc<dyn Backend>) -> Result<Self, ServeError> {
        let ServeOptions {
            listen,
            access,
            base_path,
            tls,
            max_connections,
        } = options;
        if !listen.ip().is_loopback() && !access.authenticates() {
            return Err(ServeError::TokenMissing(listen));
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(MAX_BLOCKING)
            .thread_name("weir-api-work")
            .build()?;
        let unavailable = |reason| ServeError::Listen {
            address: listen,
            reason,
        };
        let listener = runtime.block_on(TcpListener::bind(listen)).map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        let tls = tls.map(Tls::new).transpose()?;
        let access = Access::new(access, address.port(), &base_path.0, tls.is_some());
        let listener = BoundedListener::new(listener, max_connections, tls);
        let api = Arc::new(Api {
            backend,
            access,
            audit: Audit::default(),
            watched: Watched::default(),
            clips: Clips::default(),
            exports: Clips::default(),
            searches: Clips::default(),
            pictures: PicturePlaces::default(),
            started: tokio::time::Instant::now(),
        });
        let router = router(&api, &base_path.0);
        let (stop, stopped) = oneshot::channel();
        let builder = std::thread::Builder::new().name("weir-api".to_owned());
        let thread = builder.spawn(move || serve(runtime, listener, router, stopped))?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address that the server listens on, with the port that the system chose.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the API panicked");
        }
    }
}

fn serve(runtime: Runtime, listener: BoundedListener, router: Router, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async move {
        let served = axum::serve(listener, router.into_make_service_with_connect_info::<Peer>());
        tokio::select! {
            ended = async { served.await } => {
                if let Err(error) = ended {
                    tracing::error!("the API has ended: {error}");
                }
            }
            // The other end is dropped.
            _ = stopped => {}
        }
    });
    // A request that hangs is left behind.
    runtime.shutdown_timeout(STOP_TIMEOUT);
}

/// The router of all routes, at the root and below `base`.
fn router(api: &Arc<Api>, base: &str) -> Router {
    let mut router = with_routes(Router::new(), api, "");
    if !base.is_empty() {
        router = with_routes(router, api, base);
        let location = format!("{base}/");
        let redirect = move || {
            let location = location.clone();
            async move { (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, location)]) }
        };
        router = router.route(base, on(MethodFilter::GET, redirect));
    }
    let unknown = |status: StatusCode, what: &'static str| {
        let api = Arc::clone(api);
        move |request: Request| {
            let api = Arc::clone(&api);
            answered(request, async move |request, peer| {
                api.refuse(&request, &peer, status, what)
            })
        }
    };
    router
        .fallback(unknown(StatusCode::NOT_FOUND, "there is nothing at this path"))
        .method_not_allowed_fallback(unknown(
            StatusCode::METHOD_NOT_ALLOWED,
            "this path does not support the method",
        ))
}

/// Adds all routes below a path.
fn with_routes(mut router: Router, api: &Arc<Api>, base: &str) -> Router {
    for route in routes() {
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let (api, operation) = (Arc::clone(api), route.operation);
        let handler = move |request: Request| {
            let api = Arc::clone(&api);
            answered(request, async move |request, peer| {
                api.answer(operation, request, peer).await
            })
        };
        router = router.route(&format!("{base}{}", route.path), on(filter, handler));
    }
    for path in page::paths() {
        let api = Arc::clone(api);
        let handler = move |request: Request| {
            let api = Arc::clone(&api);
            answered(request, async move |request, peer| {
                api.page(&request, &peer, path)
            })
        };
        router = router.route(&format!("{base}{path}"), on(MethodFilter::GET, handler));
    }
    router
}

/// Answers a request; its connection knows that it is no longer that of a client which does not say what it asks for.
async fn answered<R: IntoResponse>(
    request: Request,
    answer: impl AsyncFnOnce(Request, Peer) -> R,
) -> Response {
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>().cloned() else {
        let what = "the connection is unknown";
        return ApiError::with_status(StatusCode::INTERNAL_SERVER_ERROR, what).into_response();
    };
    peer.0.on_request();
    let response = answer(request, peer.clone()).await.into_response();
    peer.0.on_answered();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_paths_are_plain_and_absolute() {
        let parse = |text: &str| text.parse::<BasePath>().map(|path| path.0);
        assert_eq!(parse("/weir").as_deref(), Ok("/weir"));
        assert_eq!(parse("/video/weir/").as_deref(), Ok("/video/weir"));
        for root in ["", "/"] {
            assert_eq!(parse(root).as_deref(), Ok(""), "{root}");
        }
        for wrong in ["weir", "/a//b", "/..", "/{name}", "/a b", "/a;Path=b", "http://a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
