//! Operators and sinks of a program that embeds the engine, beside those that ship.

use std::path::Path;
use std::sync::Arc;

use weir_flow::{Catalog, Operator, OperatorSpec, Settings, SinkFactory, SinkSpec};
use weir_graph::{Graph, ModuleNode, SinkNode};
use weir_operators::PythonTransforms;
use weir_runtime::{Assembly, Progress};

use crate::assemble::assemble_extended;
use crate::catalog::catalog;
use crate::error::UserError;
use crate::zoo::Zoo;

/// Makes a sink from the keys of its table in the graph.
type MakeSink = Box<dyn Fn(&Settings) -> anyhow::Result<Box<dyn SinkFactory>>>;

/// Operators and sinks of your own for graphs, in addition to those that ship. Without any, loading and
/// assembling is the same as [`load`](crate::load()) and [`assemble`](crate::assemble()).
#[derive(Default)]
pub struct Extensions {
    operators: Vec<(OperatorSpec, Arc<dyn Operator>)>,
    sinks: Vec<(SinkSpec, MakeSink)>,
}

impl Extensions {
    /// Adds an operator; all modules that name it share it.
    #[must_use]
    pub fn operator(mut self, spec: OperatorSpec, operator: Arc<dyn Operator>) -> Self {
        self.operators.push((spec, operator));
        self
    }

    /// Adds a type of sinks, each made from the checked keys of its table.
    #[must_use]
    pub fn sink<F>(mut self, spec: SinkSpec, make: F) -> Self
    where
        F: Fn(&Settings) -> anyhow::Result<Box<dyn SinkFactory>> + 'static,
    {
        self.sinks.push((spec, Box::new(make)));
        self
    }

    /// Reads and checks the graph at `path`. Its variables are those of the environment.
    ///
    /// # Errors
    /// All problems at once.
    pub fn load(&self, path: &Path, zoo: &Zoo) -> anyhow::Result<Graph> {
        let environment = |name: &str| std::env::var(name).ok();
        Ok(weir_graph::load(path, &self.catalog(zoo), &environment)?)
    }

    /// Reads and checks the text of a graph; paths in it are relative to the folder of `path`.
    ///
    /// # Errors
    /// All problems at once.
    pub fn parse(&self, text: &str, path: &Path, zoo: &Zoo) -> anyhow::Result<Graph> {
        let environment = |name: &str| std::env::var(name).ok();
        Ok(weir_graph::parse(text, path, &self.catalog(zoo), &environment)?)
    }

    /// Makes every part of `graph`.
    ///
    /// # Errors
    /// Every part that cannot be made, and what to do about it.
    pub fn assemble(&self, graph: Graph, zoo: &Zoo) -> anyhow::Result<Assembly> {
        let (progress, programs) = (Progress::default(), PythonTransforms::default());
        assemble_extended(graph, zoo, (None, None), &progress, &programs, self)
    }

    fn catalog(&self, zoo: &Zoo) -> Catalog {
        let mut catalog = catalog(zoo);
        let operators = self.operators.iter().map(|(spec, _)| spec.clone());
        catalog.operators.extend(operators);
        let sinks = self.sinks.iter().map(|(spec, _)| spec.clone());
        catalog.sinks.extend(sinks);
        catalog
    }

    /// The operator of a module, where it is one of these.
    pub(crate) fn operator_of(&self, node: &ModuleNode) -> Option<Arc<dyn Operator>> {
        let mut operators = self.operators.iter();
        let (_, operator) = operators.find(|(spec, _)| spec.name == node.operator)?;
        Some(Arc::clone(operator))
    }

    /// The sink of that node with these keys, where it is one of these.
    pub(crate) fn sink_of(
        &self,
        node: &SinkNode,
        settings: &Settings,
    ) -> Option<anyhow::Result<Box<dyn SinkFactory>>> {
        let mut sinks = self.sinks.iter();
        let (_, make) = sinks.find(|(spec, _)| spec.name == node.kind)?;
        let made = make(settings);
        Some(made.map_err(|error| UserError::new(format!("sink {}: {error}", node.name)).into()))
    }
}
