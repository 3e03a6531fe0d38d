//! Results of the modules that a request has passed so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cascade::CascadeAnswers;
use crate::results::{ModuleOutput, Object, ObjectRef};

/// Outputs of all modules that a request has passed. Parallel branches merge by union.
#[derive(Debug, Clone, Default)]
pub struct RequestResults {
    outputs: BTreeMap<u32, Arc<ModuleOutput>>,
    /// Answers of cascades whose last stage is still ahead, by the index of that stage.
    cascades: BTreeMap<u32, Arc<CascadeAnswers>>,
    /// Modules that it skipped, wholly or in part.
    without: BTreeSet<u32>,
}

impl RequestResults {
    /// Adds the output of `module`.
    pub fn add(&mut self, module: u32, output: ModuleOutput) {
        self.outputs.insert(module, Arc::new(output));
    }

    /// Adds the outputs of another branch; those already present stay.
    pub fn merge(&mut self, other: &Self) {
        for (module, output) in &other.outputs {
            self.outputs.entry(*module).or_insert_with(|| Arc::clone(output));
        }
        for (module, answers) in &other.cascades {
            let known = self.cascades.entry(*module);
            known.or_insert_with(|| Arc::clone(answers));
        }
        self.without.extend(&other.without);
    }

    /// Records that the request continues without the results of `module`, or without some of them.
    pub fn go_without(&mut self, module: u32) {
        self.without.insert(module);
    }

    /// The modules that it went on without, ascending.
    pub fn without(&self) -> impl Iterator<Item = u32> {
        self.without.iter().copied()
    }

    /// The answers so far in the cascade that ends with `module`; `None` before its first stage.
    #[must_use]
    pub fn cascade(&self, module: u32) -> Option<&CascadeAnswers> {
        self.cascades.get(&module).map(AsRef::as_ref)
    }

    /// Removes and returns the answers so far in the cascade that ends with `module`.
    pub fn take_cascade(&mut self, module: u32) -> Option<CascadeAnswers> {
        self.cascades.remove(&module).map(Arc::unwrap_or_clone)
    }

    /// Stores the answers so far in the cascade that ends with `module`.
    pub fn set_cascade(&mut self, module: u32, answers: CascadeAnswers) {
        self.cascades.insert(module, Arc::new(answers));
    }

    /// Outputs by module index, ascending.
    pub fn outputs(&self) -> impl Iterator<Item = (u32, &ModuleOutput)> {
        self.outputs
            .iter()
            .map(|(module, output)| (*module, output.as_ref()))
    }

    /// All objects with their references, by module index and then by index.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectRef, &Object)> {
        self.outputs().flat_map(|(module, output)| {
            (0_u32..)
                .zip(&output.objects)
                .map(move |(index, object)| (ObjectRef { module, index }, object))
        })
    }

    /// The object that `reference` identifies.
    #[must_use]
    pub fn object(&self, reference: ObjectRef) -> Option<&Object> {
        let output = self.outputs.get(&reference.module)?;
        output.objects.get(reference.index as usize)
    }
}
