//! The server on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::backend::Backend;
use crate::clip::Clips;
use crate::connections::{BoundedListener, Peer};
use crate::error::ApiError;
use crate::infer::PicturePlaces;
use crate::live::Watched;
use crate::page;
use crate::requests::Api;
use crate::routes::ROUTES;
use crate::token::Token;

/// Requests that the backend carries out side by side; further ones wait.
const MAX_BLOCKING: usize = 8;

/// Timeout for requests that are in progress when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Address, access control and bounds of a server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Address to listen on; with port 0 the system chooses a port.
    pub listen: SocketAddr,
    /// Token that clients must send; required unless `listen` is a loopback address.
    pub token: Option<Token>,
    /// Connections at a time, such as [`MAX_CONNECTIONS`](crate::MAX_CONNECTIONS).
    pub max_connections: usize,
}

/// Error of starting a server.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address is open to other machines.
    #[error(
        "other machines can reach {0}, so it needs a token: give --token-file FILE or WEIR_API_TOKEN, or listen on \
         127.0.0.1"
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
            token,
            max_connections,
        } = options;
        if !listen.ip().is_loopback() && token.is_none() {
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
        let listener = BoundedListener::new(listener, max_connections);
        let router = router(&Arc::new(Api {
            backend,
            token,
            watched: Watched::default(),
            clips: Clips::default(),
            pictures: PicturePlaces::default(),
            started: tokio::time::Instant::now(),
        }));
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

fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
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
        router = router.route(route.path, on(filter, handler));
    }
    for path in page::paths() {
        let api = Arc::clone(api);
        let handler = move |request: Request| {
            let api = Arc::clone(&api);
            answered(request, async move |request, peer| api.page(&request, &peer))
        };
        router = router.route(path, on(MethodFilter::GET, handler));
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
