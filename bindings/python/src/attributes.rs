//! JSON values as Python objects.

use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;
use weir::flow::Attribute;
use weir_operators::sinks::attributes_value;

/// Attributes by name, each as event lines have it.
pub(crate) fn to_dict(py: Python<'_>, attributes: &[(Arc<str>, Attribute)]) -> PyResult<Py<PyAny>> {
    if attributes.is_empty() {
        return PyDict::new(py).into_py_any(py);
    }
    to_python(py, &attributes_value(attributes))
}

pub(crate) fn to_python(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::Null => Ok(py.None()),
        Value::Bool(value) => value.into_py_any(py),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_py_any(py),
            (None, Some(number)) => number.into_py_any(py),
            (None, None) => number.as_f64().into_py_any(py),
        },
        Value::String(text) => text.into_py_any(py),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            list.into_py_any(py)
        }
        Value::Object(entries) => {
            let dict = PyDict::new(py);
            for (name, value) in entries {
                dict.set_item(name, to_python(py, value)?)?;
            }
            dict.into_py_any(py)
        }
    }
}
