//! The operator graph of one application: read from TOML, checked whole, and then never checked again.

mod graph;

pub use graph::{
    DeviceClass, DeviceNode, Graph, ModelNode, ModelOrigin, ModuleNode, SinkNode, SourceMode, SourceNode,
    Vertex, WhenSlow,
};
