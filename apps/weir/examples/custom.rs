//! An operator and a sink of one's own: halves of frames as items, and objects counted by stream.
//!
//!     cargo run -p weir --example custom

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use std::collections::BTreeMap;
use std::sync::Arc;

use weir::flow::*;

/// Gives its model the left and the right half of each frame, and calls what it says of them an object.
struct Halves;

impl Operator for Halves {
    fn items(&self, frame: &Arc<Frame>, _: &RequestResults) -> Vec<Item> {
        let (width, height) = (frame.image.width as f32 / 2.0, frame.image.height as f32);
        let half = |x| Rect::new(x, 0.0, x + width, height);
        let (object, points) = (None, Points::None);
        let item = |rect| Item {
            frame: Arc::clone(frame),
            region: Region::Crop {
                rect,
                points: points.clone(),
            },
            object,
            class: None,
        };
        [half(0.0), half(width)].map(item).into()
    }

    fn output(&self, _: u32, items: &[Item], _: Vec<Inference>) -> ModuleOutput {
        let rects = items.iter().filter_map(|item| match &item.region {
            Region::Crop { rect, .. } => Some(*rect),
            Region::Whole => None,
        });
        let object = |rect| Object {
            class: "half".into(),
            score: 1.0,
            rect,
            parent: None,
            points: Points::None,
            candidate: false,
        };
        ModuleOutput {
            objects: rects.map(object).collect(),
            attributes: Vec::new(),
        }
    }
}

/// Counts objects by stream, and prints the sums at the end.
#[derive(Clone, Default)]
struct Count(BTreeMap<String, usize>);

impl SinkFactory for Count {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Count {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        *self.0.entry(delivery.stream.to_string()).or_default() += delivery.objects.len();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        println!("{:?}", self.0);
        Ok(())
    }
}

const GRAPH: &str = r#"
[app]
name = "custom"
slo = "2s"
[sources.camera]
uri = "emulated:uniform?rate=100&frames=50"
[models.any]
device = "emulated:a"
profile = { "1" = "1ms", "8" = "4ms" }
[modules.halves]
operator = "halves"
model = "any"
inputs = ["camera"]
[sinks.count]
type = "count"
inputs = ["halves"]
"#;

/// Runs fifty frames.
pub(crate) fn main() -> anyhow::Result<()> {
    let zoo = weir::Zoo::in_folder(std::env::temp_dir())?;
    let halves = OperatorSpec {
        name: "halves",
        about: "",
        input: OperatorInput::FrameOrBoxes,
        heads: &[],
        attribute: None,
        counts_tokens: false,
        keys: (&[]).into(),
    };
    let count = SinkSpec {
        name: "count",
        about: "",
        keys: &[],
        check: Default::default(),
    };
    let extensions = weir::Extensions::default()
        .operator(halves, Arc::new(Halves))
        .sink(count, |_| Ok(Box::new(Count::default())));
    let graph = extensions.parse(GRAPH, "graph.toml".as_ref(), &zoo)?;
    let assembly = extensions.assemble(graph, &zoo)?;
    let report = weir::runtime::run(assembly, &Default::default(), &StopFlag::default())?;
    println!("{:?}", report.requests);
    Ok(())
}
