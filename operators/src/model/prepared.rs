//! A model as the runtime has optimised it for this machine, kept in memory: a session is opened from that without optimising
//! anything again.

use std::path::PathBuf;
use std::sync::Arc;

use weir_flow::{DeviceKind, PreparedModel};

use super::loaded::Loaded;
use super::runtime::{OpenError, Optimization};
use super::session::OnnxSession;

/// The graphs of a model after optimisation.
struct OptimizedGraphs(Vec<Arc<[u8]>>);

/// Opens a session from the model's own graphs, and keeps what the runtime made of them. On other devices than the CPU it keeps
/// nothing: their providers compile parts of a graph that cannot be written.
pub(super) fn open_cold(
    model: &Arc<Loaded>,
    device: DeviceKind,
) -> Result<(OnnxSession, Option<PreparedModel>), OpenError> {
    // The runtime writes files alone.
    let folder = tempfile::tempdir();
    let (DeviceKind::Cpu, Ok(folder)) = (device, folder) else {
        return Ok((OnnxSession::open(Arc::clone(model), device)?, None));
    };
    let path = |place: usize| folder.path().join(format!("{place}.onnx"));
    let paths: Vec<PathBuf> = (0..model.graphs.len()).map(path).collect();
    let options = (Optimization::All, paths.as_slice());
    let session = OnnxSession::open_graphs(Arc::clone(model), device, &model.graphs, options);
    let session = match session {
        Ok(session) => session,
        // A disk that is full must not keep a model from being opened; what is wrong with the model is said again.
        Err(_) => return Ok((OnnxSession::open(Arc::clone(model), device)?, None)),
    };
    let read = |path: &PathBuf| {
        let bytes = weir_files::read(path, super::MAX_MODEL_BYTES).ok()?;
        (!bytes.is_empty()).then(|| Arc::from(bytes))
    };
    let graphs: Option<Vec<Arc<[u8]>>> = paths.iter().map(read).collect();
    let prepared = graphs.map(|graphs| PreparedModel {
        bytes: graphs.iter().map(|graph| graph.len() as u64).sum(),
        data: Arc::new(OptimizedGraphs(graphs)),
    });
    Ok((session, prepared))
}

/// Opens a session from what [`open_cold`] kept.
pub(super) fn open_warm(
    model: &Arc<Loaded>,
    device: DeviceKind,
    prepared: &PreparedModel,
) -> Result<OnnxSession, OpenError> {
    let Some(OptimizedGraphs(graphs)) = prepared.data.downcast_ref() else {
        return OnnxSession::open(Arc::clone(model), device);
    };
    OnnxSession::open_graphs(Arc::clone(model), device, graphs, (Optimization::No, &[]))
}
