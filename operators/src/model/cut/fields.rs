//! Field numbers of ONNX's messages that cutting reads or writes.

pub(super) const MODEL_GRAPH: u32 = 7;
pub(super) const MODEL_METADATA: u32 = 14;
pub(super) const METADATA_KEY: u32 = 1;
pub(super) const METADATA_VALUE: u32 = 2;
pub(super) const GRAPH_NODE: u32 = 1;
pub(super) const GRAPH_NAME: u32 = 2;
pub(super) const GRAPH_INITIALIZER: u32 = 5;
pub(super) const GRAPH_INPUT: u32 = 11;
pub(super) const GRAPH_OUTPUT: u32 = 12;
pub(super) const GRAPH_SPARSE_INITIALIZER: u32 = 15;
pub(super) const NODE_INPUT: u32 = 1;
pub(super) const NODE_OUTPUT: u32 = 2;
pub(super) const NODE_NAME: u32 = 3;
pub(super) const NODE_OP: u32 = 4;
pub(super) const NODE_ATTRIBUTE: u32 = 5;
pub(super) const ATTRIBUTE_GRAPH: u32 = 6;
pub(super) const ATTRIBUTE_GRAPHS: u32 = 11;
pub(super) const TENSOR_NAME: u32 = 8;
pub(super) const TENSOR_LOCATION: u32 = 14;
/// Value of [`TENSOR_LOCATION`] for weights in another file.
pub(super) const EXTERNAL: u64 = 1;
pub(super) const VALUE_NAME: u32 = 1;
pub(super) const VALUE_TYPE: u32 = 2;
pub(super) const TYPE_TENSOR: u32 = 1;
pub(super) const TENSOR_TYPE_ELEMENT: u32 = 1;
pub(super) const TENSOR_TYPE_SHAPE: u32 = 2;
pub(super) const SHAPE_DIM: u32 = 1;
pub(super) const DIM_VALUE: u32 = 1;
pub(super) const DIM_PARAM: u32 = 2;
