//! Functions that users write in Python: operators, which get a batch of pictures and return attributes or objects; heads,
//! transforms and sinks.
//!
//! Worker processes call the function, one for each slot that the module has, so that the interpreter lock of one never holds
//! up another, and neither a crash nor an endless loop reaches this process. Pictures travel in shared memory, facts and
//! results as lines of JSON over a socket.

mod head;
mod memory;
mod model;
mod output;
mod process;
mod protocol;
mod restarts;
mod results;
mod session;
mod transform;

use std::sync::Arc;

use weir_flow::{
    Frame, Inference, Item, KeyKind, KeySpec, ModuleOutput, Object, Operator, OperatorInput, OperatorSpec,
    PYTHON_FUNCTION, PYTHON_INTERPRETER, PYTHON_PREFIX, RequestResults,
};

use super::gallery::Gallery;
use super::output::note_named;
use super::{ConfiguredOperator, CropShape, KEYS, OperatorRequest, crops};
pub(crate) use head::KIND as HEAD;
pub use model::PythonModel;
pub(crate) use process::{CallError, WorkerProcess};
pub use process::{FunctionKind, PythonFunction};
pub use transform::PythonTransforms;

/// Keys beside those that select crops.
const OWN_KEYS: &[KeySpec] = &[
    KeySpec {
        name: "workers",
        kind: KeyKind::Integer { min: 1, max: 1024 },
        about: "number of worker processes, each on a slot of the device; default 1",
    },
    KeySpec {
        name: "max_batch",
        kind: KeyKind::Integer { min: 1, max: 256 },
        about: "largest number of items of one call; default 1",
    },
    KeySpec {
        name: "device",
        kind: KeyKind::Text,
        about: "cpu, or a part of it as cpu:NAME, whose slots are then not those of models; default cpu",
    },
    KeySpec {
        name: "timeout",
        kind: KeyKind::Duration,
        about: "longest time of one call: a process that takes longer is killed and started again; default 10s",
    },
    KeySpec {
        name: "memory",
        kind: KeyKind::Bytes,
        about: "address space of each process; Python raises MemoryError beyond it; default no limit",
    },
    PYTHON_INTERPRETER,
];

/// Keys of other operators that select crops.
const CROP_KEYS: [&str; 3] = ["min_side", "max_items", "widen"];

/// Entry of the catalog.
pub(super) fn spec() -> OperatorSpec {
    let crop_keys = KEYS.iter().filter(|key| CROP_KEYS.contains(&key.name));
    OperatorSpec {
        name: PYTHON_FUNCTION,
        about: "calls a function in Python, of a module in the folder of `--python` (docs/how-to/python-operators.md)",
        input: OperatorInput::FrameOrBoxes,
        heads: &[],
        attribute: None,
        counts_tokens: false,
        keys: crop_keys.chain(OWN_KEYS).copied().collect(),
    }
}

/// The operator, if its name is of one in Python.
pub(super) fn operator(request: &OperatorRequest<'_>) -> Option<Arc<dyn Operator>> {
    request.operator.strip_prefix(PYTHON_PREFIX)?;
    let settings = request.settings;
    Some(Arc::new(PythonOperator(ConfiguredOperator {
        regions: request.regions.to_vec(),
        classifies: false,
        cut: CropShape::Box,
        widen: settings.number("widen", 0.0) as f32,
        min_side: settings.number("min_side", 16.0) as f32,
        max_items: settings.number("max_items", 16.0) as usize,
        attribute: Arc::default(),
        gallery: Gallery::default(),
        labels: Vec::new(),
        detects: false,
        tiles: None,
    })))
}

/// Selects items as other operators do; the function names what it gives.
struct PythonOperator(ConfiguredOperator);

impl Operator for PythonOperator {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        let mut items = crops::items(&self.0, frame, results);
        // The part of an object within the picture may be next to nothing.
        items.retain(|item| session::placement(item).is_some());
        items
    }

    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        let mut output = ModuleOutput::default();
        for (item, inference) in items.iter().zip(inferences) {
            let found = inference.objects.into_iter();
            output.objects.extend(found.map(|object| Object {
                parent: item.object,
                ..object
            }));
            note_named(module, item, inference.named, &mut output);
        }
        output
    }
}
