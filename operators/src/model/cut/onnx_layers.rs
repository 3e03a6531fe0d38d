//! An ONNX model as layers, with types and sizes of the values between them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use weir_flow::Element;

use super::error::CutError;
use super::graph::Network;
use super::liveness::Liveness;
use super::node::Node;
use super::partition;
use super::value_info::{self, SampleInputs, ValueInfo};
use crate::model::onnx::ModelProto;

/// An ONNX model as layers.
#[derive(Debug, Clone)]
pub(crate) struct OnnxLayers {
    pub(super) bytes: Arc<[u8]>,
    /// The decoded bytes; raw weights are slices of them.
    pub(super) model: Arc<ModelProto>,
    value_infos: BTreeMap<String, ValueInfo>,
    pub(super) layers: usize,
}

impl OnnxLayers {
    /// Whether the bytes are a model that can be cut; runs nothing.
    pub(crate) fn check(bytes: &[u8]) -> Result<(), CutError> {
        let model = decode(Bytes::copy_from_slice(bytes))?;
        Network::of(&model).map(|_| ())
    }

    /// Parses a model and measures its values.
    pub(crate) fn read(bytes: Arc<[u8]>, samples: &SampleInputs) -> Result<Self, CutError> {
        let model = decode(Bytes::from_owner(Arc::clone(&bytes)))?;
        let network = Network::of(&model)?;
        let liveness = Liveness::of(&network);
        let given = |name: &&str| !network.has_input(name);
        let names: Vec<&str> = liveness.all().filter(given).collect();
        let mut value_infos = value_info::value_infos(&model, &names, samples)?;
        for tensor in &samples.one {
            value_infos.insert(
                tensor.name.to_string(),
                ValueInfo::of_input(tensor, samples.items),
            );
        }
        let layers = network.layers.len();
        Ok(Self {
            bytes,
            model: Arc::new(model),
            value_infos,
            layers,
        })
    }

    pub(super) fn network(&self) -> Result<Network<'_>, CutError> {
        Network::of(&self.model)
    }

    pub(crate) fn layer_count(&self) -> usize {
        self.layers
    }

    /// Names and operators of the layers.
    pub(crate) fn layer_names(&self) -> Result<Vec<(String, String)>, CutError> {
        let network = self.network()?;
        let name = |layer: Node<'_>| (layer.name, layer.op.to_owned());
        Ok(network.layers.into_iter().map(name).collect())
    }

    /// Bytes per item that cross each boundary: `[i]` from layer `i` to layer `i + 1`.
    pub(crate) fn bytes(&self, half: bool) -> Result<Vec<u64>, CutError> {
        let network = self.network()?;
        let liveness = Liveness::of(&network);
        let sent = |name: &str| {
            let info = self.value_infos.get(name);
            info.map(|info| info.sent_bytes(half))
                .ok_or_else(|| CutError::Unknown(name.to_owned()))
        };
        (1..self.layers)
            .map(|boundary| liveness.crossing(boundary).into_iter().map(sent).sum())
            .collect()
    }

    /// Elements per item of a value of type `F32`.
    pub(crate) fn floats(&self, name: &str) -> Option<usize> {
        let info = self
            .value_infos
            .get(name)
            .filter(|info| info.element == Element::F32)?;
        usize::try_from(info.bytes)
            .ok()
            .map(|bytes| bytes / Element::F32.bytes())
    }

    /// The layers of that range as an ONNX file of their own.
    pub(crate) fn partition(&self, layers: Range<usize>) -> Result<Vec<u8>, CutError> {
        let network = self.network()?;
        partition::partition(&network, &Liveness::of(&network), &self.value_infos, layers)
    }
}

fn decode(bytes: Bytes) -> Result<ModelProto, CutError> {
    ModelProto::decode(bytes).map_err(|_| CutError::NoModel)
}
