//! Constants of the wire format: codes of messages and elements, and limits of counts and texts.

use weir_flow::Element;

/// Maximum length of a reason in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 4 << 10;
/// Maximum length of a name in bytes.
pub(super) const MAX_NAME_BYTES: usize = 1 << 10;
/// Maximum number of stages of a pipeline; plans have at most three.
pub(super) const MAX_STAGES: usize = 32;
/// Maximum number of tensors that cross one boundary.
pub(super) const MAX_TENSORS: usize = 1 << 10;
/// Maximum number of dimensions of a tensor.
pub(super) const MAX_DIMENSIONS: usize = 16;
/// Maximum number of shares of a worker, and of declared durations.
pub(super) const MAX_SHARES: usize = 1 << 10;
/// Partitions that a worker may hold.
pub(super) const MAX_PARTITIONS: usize = 1 << 12;

/// Elements as they are written.
pub(super) const ELEMENTS: &[(Element, u8)] = &[
    (Element::F32, 1),
    (Element::F16, 2),
    (Element::F64, 3),
    (Element::U8, 4),
    (Element::I8, 5),
    (Element::I32, 6),
    (Element::I64, 7),
    (Element::Bool, 8),
];

/// Kinds as they are written.
pub(super) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const PEER: u8 = 2;
    pub(crate) const WELCOME: u8 = 3;
    pub(crate) const REFUSED: u8 = 4;
    pub(crate) const LOAD: u8 = 5;
    pub(crate) const LOADED: u8 = 6;
    pub(crate) const NOT_LOADED: u8 = 7;
    pub(crate) const UNLOAD: u8 = 8;
    pub(crate) const ACTIVATE: u8 = 9;
    pub(crate) const ACTIVATED: u8 = 10;
    pub(crate) const RUN: u8 = 11;
    pub(crate) const FEATURE: u8 = 12;
    pub(crate) const USED: u8 = 13;
    pub(crate) const DONE: u8 = 14;
    pub(crate) const FAILED: u8 = 15;
    pub(crate) const PING: u8 = 16;
    pub(crate) const PONG: u8 = 17;
    pub(crate) const GENERATE: u8 = 18;
    pub(crate) const LOAD_GENERATOR: u8 = 19;
    pub(crate) const GENERATOR_LOADED: u8 = 20;
    pub(crate) const STEP: u8 = 21;
    pub(crate) const STEPPED: u8 = 22;
    pub(crate) const STEP_FAILED: u8 = 23;
}
