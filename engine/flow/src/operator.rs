//! The work of a module around its model.

use std::sync::Arc;

use weir_types::TileGrid;

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
    /// The items of a request while a gear sets the tiles in which frames are read. Operators that read no tiles
    /// give the items of every request.
    fn tiled_items(&self, frame: &Arc<Frame>, evidence: &RequestResults, _tiles: TileGrid) -> Vec<Item> {
        self.items(frame, evidence)
    }
    /// Sequence of each item for generative models; its prompt has at least one token. Empty for other
    /// models, which process the items themselves.
    fn sequences(&self, _items: &[Item], _results: &RequestResults) -> Vec<SequenceSpec> {
        Vec::new()
    }
    /// Converts the output of a finished sequence to the inference of its item.
    fn inference(&self, _generated: &Generated) -> Inference {
        Inference::default()
    }
    /// Makes an inference of this model comparable with those of other models that may answer the same item.
    /// It adds results that only this operator can compute, such as the match in a gallery embedded by this
    /// model. Called only for stages of a cascade.
    fn settle(&self, inference: Inference) -> Inference {
        inference
    }
    /// Divides the answer to an item into the certain part and regions around the parts less certain than
    /// `least`. A later stage of the cascade gets the regions instead of the whole item. `None`: the item is
    /// handed on unchanged.
    fn regions(&self, _item: &Item, _inference: &Inference, _least: f32) -> Option<SplitAnswer> {
        None
    }
    /// The output of module number `module` from the inferences of a request, given in the order of its items.
    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput;
    /// As [`Self::output`], beside the results of earlier modules, for operators that give attributes to objects which are no items.
    fn output_beside(
        &self,
        module: u32,
        items: &[Item],
        inferences: Vec<Inference>,
        _results: &RequestResults,
    ) -> ModuleOutput {
        self.output(module, items, inferences)
    }
}
