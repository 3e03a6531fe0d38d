//! The work of a module around its model.

use std::sync::Arc;

use crate::cascade::SplitAnswer;
use crate::frame::Frame;
use crate::generate::{Generated, SequenceSpec};
use crate::item::{Inference, Item};
use crate::request_results::RequestResults;
use crate::results::ModuleOutput;

/// Selects the items of a request and assembles their inferences into the module's output.
pub trait Operator: Send + Sync {
    /// The items of a request, in order of preference if their number is limited. Without items, the request skips the
    /// model.
    fn items(&self, frame: &Arc<Frame>, evidence: &RequestResults) -> Vec<Item>;
    /// The sequence of each item, where its model generates: one with a prompt, whose tokens are at least one. Empty for other
    /// models, which take the items themselves.
    fn sequences(&self, _items: &[Item], _results: &RequestResults) -> Vec<SequenceSpec> {
        Vec::new()
    }
    /// What a sequence that has ended says of its item.
    fn inference(&self, _generated: &Generated) -> Inference {
        Inference::default()
    }
    /// Makes an inference of its own model comparable with those of other models, which may answer the same item: what only
    /// this operator can tell is in it then, such as the match in a gallery that this model embedded. Asked of stages of a
    /// cascade alone.
    fn settle(&self, inference: Inference) -> Inference {
        inference
    }
    /// Divides the answer to an item into what is certain enough and the regions around what is less certain than `least`, which a
    /// later stage of a cascade is asked instead of the whole. `None`: the item is handed on as it is.
    fn regions(&self, _item: &Item, _inference: &Inference, _least: f32) -> Option<SplitAnswer> {
        None
    }
    /// The output of module number `module` from the inferences of a request, given in the order of its items.
    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput;
}
