//! Settings and models of this machine, for a program that embeds the engine and is to find what the command finds.

use std::path::Path;
use std::sync::Arc;

use weir_flow::SourceFactory;
use weir_graph::{Graph, SourceNode};
use weir_operators::PythonTransforms;
use weir_runtime::{Assembly, Progress, RunOptions};

use crate::assemble::{assemble_showing, source};
use crate::catalog::catalog;
use crate::handles;
use crate::launch::{LaunchOptions, files, run_options};
use crate::settings::Settings;
use crate::zoo::{self, Zoo};

/// The zoo and the settings of this machine, read as the command reads them: `weir.toml` of the current folder, then
/// variables of the environment.
pub struct Setup {
    zoo: Zoo,
    settings: Settings,
}

impl Setup {
    /// Reads the settings, and raises the limit of file handles of this process as far as it goes.
    ///
    /// # Errors
    /// A setting with a value that it cannot have.
    pub fn load() -> anyhow::Result<Self> {
        handles::raise_limit();
        let settings = Settings::of_process(None)?;
        let zoo = Zoo::new(&settings)?;
        Ok(Self { zoo, settings })
    }

    /// Lets graphs name operators in the Python modules of a folder, if there is one.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn with_python(self, folder: Option<&Path>) -> anyhow::Result<Self> {
        let zoo = self.zoo.with_python(folder)?;
        Ok(Self { zoo, ..self })
    }

    /// Reads and checks the graph at `path`. Its variables are those of the environment.
    ///
    /// # Errors
    /// A [`ConfigError`](weir_config::ConfigError) with all problems at once.
    pub fn load_graph(&self, path: &Path) -> anyhow::Result<Graph> {
        Ok(weir_graph::load(path, &catalog(&self.zoo), &variable)?)
    }

    /// Reads and checks the text of a graph; paths in it are relative to the folder of `path`.
    ///
    /// # Errors
    /// As [`Setup::load_graph`].
    pub fn parse_graph(&self, text: &str, path: &Path) -> anyhow::Result<Graph> {
        Ok(weir_graph::parse(text, path, &catalog(&self.zoo), &variable)?)
    }

    /// Makes every part of `graph`, after the checks that `weir run` makes: models of the zoo are on this machine, there are
    /// file handles for all streams, and no output takes the place of an input.
    ///
    /// # Errors
    /// Every part that cannot be made, and what to do about it.
    pub fn assemble(&self, graph: Graph) -> anyhow::Result<Assembly> {
        zoo::require(&graph, &self.zoo)?;
        handles::require(&graph)?;
        files(&graph, &launch(), &self.settings, &self.zoo)?.check()?;
        let (progress, programs) = (Progress::default(), PythonTransforms::default());
        assemble_showing(graph, &self.zoo, None, None, &progress, &programs)
    }

    /// Options of a run as `weir run` has them.
    #[must_use]
    pub fn run_options(&self) -> RunOptions {
        run_options(&launch(), &self.settings, Arc::default())
    }

    /// The source of a stream that is added to an engine; none for an emulated stream.
    #[must_use]
    pub fn source(&self, node: &SourceNode) -> Option<Box<dyn SourceFactory>> {
        source(node)
    }
}

fn launch() -> LaunchOptions {
    LaunchOptions::for_graph(crate::args::RunArgs::default())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
