//! A street that an operator finds in whatever frame.

use std::sync::Arc;

use weir_flow::{
    Frame, Inference, Item, ModuleOutput, Object, Operator, Points, Rect, Region, RequestResults,
};

/// Finds a car that drives to the right, 100 pixels a second from 50, and a person who stands.
pub(crate) struct Street;

impl Operator for Street {
    fn items(&self, frame: &Arc<Frame>, _results: &RequestResults) -> Vec<Item> {
        vec![Item::of_frame(frame, Region::Whole)]
    }

    fn output(&self, _module: u32, items: &[Item], _inferences: Vec<Inference>) -> ModuleOutput {
        let object = |class: &str, x: f32, width: f32| Object {
            candidate: false,
            class: class.into(),
            score: 0.9,
            rect: Rect::new(x, 100.0, x + width, 160.0),
            parent: None,
            points: Points::None,
        };
        let seconds = items[0].frame.pts_ms as f32 / 1e3;
        ModuleOutput {
            objects: vec![
                object("car", 10.0 + 100.0 * seconds, 80.0),
                object("person", 500.0, 20.0),
            ],
            attributes: Vec::new(),
        }
    }
}
