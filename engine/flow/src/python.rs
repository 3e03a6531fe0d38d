//! The place of a function in Python that a graph names in place of a head, a transform or a sink.
//!
//! The graph's reader finds it below the folder of `--python` and adds it to the keys of the table, under names that no
//! graph can write, so that it reaches whatever is made from these keys.

use std::path::PathBuf;

use crate::catalog::{KeyKind, KeySpec, PYTHON_PREFIX, Settings, Value};

const FOLDER: &str = "python-folder";
const MODULE: &str = "python-module";
const FUNCTION: &str = "python-function";
const INTERPRETER: &str = "python-interpreter";

/// Key of the interpreter, of all tables that name a function in Python.
pub const PYTHON_INTERPRETER: KeySpec = KeySpec {
    name: "python",
    kind: KeyKind::Text,
    about: "interpreter, as a path below the folder of `--python`, such as `.venv/bin/python3`; default python3 of PATH",
};

/// A function in a Python module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonPlace {
    /// Folder of the Python modules, an absolute path without links.
    pub folder: PathBuf,
    /// Name of the Python module, with dots.
    pub module: String,
    /// Name of the function or class in the module.
    pub function: String,
    /// Interpreter below the folder; `None`: `python3` of the search path.
    pub interpreter: Option<PathBuf>,
}

impl PythonPlace {
    /// Adds the place to the keys of a table.
    pub fn add_to(&self, settings: &mut Settings) {
        let mut add = |key: &str, text: &str| {
            settings.0.insert(key.to_owned(), Value::Text(text.to_owned()));
        };
        add(FOLDER, &self.folder.to_string_lossy());
        add(MODULE, &self.module);
        add(FUNCTION, &self.function);
        if let Some(interpreter) = &self.interpreter {
            add(INTERPRETER, &interpreter.to_string_lossy());
        }
    }

    /// The place that the keys of a table have; `None` if they name no function in Python.
    #[must_use]
    pub fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            folder: settings.text(FOLDER)?.into(),
            module: settings.text(MODULE)?.to_owned(),
            function: settings.text(FUNCTION)?.to_owned(),
            interpreter: settings.text(INTERPRETER).map(PathBuf::from),
        })
    }

    /// Removes the place from the keys of a table, so that what is made of them calls nothing.
    pub fn remove_from(settings: &mut Settings) {
        for key in [FOLDER, MODULE, FUNCTION, INTERPRETER] {
            settings.0.remove(key);
        }
    }

    /// The function as graphs name it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{PYTHON_PREFIX}{}.{}", self.module, self.function)
    }
}
