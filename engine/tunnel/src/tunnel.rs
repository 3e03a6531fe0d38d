//! A tunnel from its opening to its end.

use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::accept::accept_all;
use crate::address::Address;
use crate::certificates::{CertificateFiles, Credentials};
use crate::dial::dial_all;
use crate::error::TunnelError;
use crate::folder::Folder;
use crate::shared::{Gate, Shared};

/// Threads of a tunnel at most: each encrypts some GB a second.
const MAX_THREADS: usize = 4;

/// Addresses and certificates of a tunnel.
#[derive(Debug, Clone)]
pub struct TunnelSettings {
    /// Address on which other nodes connect; `None` for a node that only connects.
    pub listen: Option<Address>,
    /// Addresses of other nodes.
    pub connect: Vec<Address>,
    /// Certificates and key of this node.
    pub files: CertificateFiles,
}

/// An open tunnel. It closes on drop, without waiting.
pub struct Tunnel {
    runtime: Option<Runtime>,
    loops: Vec<AbortHandle>,
    running: Option<Sender<()>>,
    ended: Receiver<()>,
    inner: PathBuf,
    dials: Vec<PathBuf>,
    _folder: Folder,
}

impl Tunnel {
    /// Opens a tunnel: it listens, and connects whenever the transport connects to one of its sockets.
    ///
    /// # Errors
    /// [`TunnelError`].
    pub fn open(settings: &TunnelSettings, gate: Arc<dyn Gate>) -> Result<Self, TunnelError> {
        let credentials = Credentials::read(&settings.files)?;
        let folder = Folder::make()?;
        let threads = available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("weir-tunnel");
        let runtime = builder.enable_all().build().map_err(TunnelError::Threads)?;
        let entered = runtime.enter();
        let listener = settings.listen.as_ref().map(listen).transpose()?;
        let inner = folder.socket("in");
        let (running, ended) = mpsc::channel(1);
        let shared = Shared::new(gate, credentials, inner.clone(), running.downgrade());
        let shared = Arc::new(shared);
        let (mut loops, mut dials) = (Vec::new(), Vec::new());
        for (number, address) in settings.connect.iter().enumerate() {
            let path = folder.socket(&format!("peer-{number}"));
            let listener = UnixListener::bind(&path).map_err(|source| TunnelError::Folder {
                path: path.clone(),
                source,
            })?;
            let dialling = dial_all(Arc::clone(&shared), listener, address.clone());
            loops.push(tokio::spawn(dialling).abort_handle());
            dials.push(path);
        }
        if let Some(listener) = listener {
            loops.push(tokio::spawn(accept_all(shared, listener)).abort_handle());
        }
        drop(entered);
        Ok(Self {
            runtime: Some(runtime),
            loops,
            running: Some(running),
            ended,
            inner,
            dials,
            _folder: folder,
        })
    }

    /// Path on which the transport must accept connections of other nodes.
    #[must_use]
    pub fn inner(&self) -> &Path {
        &self.inner
    }

    /// Paths that the transport must connect to, one for each address of [`TunnelSettings::connect`].
    #[must_use]
    pub fn dials(&self) -> &[PathBuf] {
        &self.dials
    }

    /// Ends the tunnel after the transport has closed its sockets: their last bytes are sent first. Returns `false` where that took
    /// longer than `patience`.
    pub fn close(mut self, patience: Duration) -> bool {
        self.loops.iter().for_each(AbortHandle::abort);
        self.running = None;
        let Some(runtime) = &self.runtime else {
            return true;
        };
        let ended = runtime.block_on(async { timeout(patience, self.ended.recv()).await });
        ended.is_ok()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

/// Listens on an address; in the context of a runtime.
fn listen(address: &Address) -> Result<tokio::net::TcpListener, TunnelError> {
    let listener = TcpListener::bind((address.host.as_str(), address.port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::TcpListener::from_std(listener)
    });
    listener.map_err(|source| TunnelError::Listen {
        address: address.to_string(),
        source,
    })
}
