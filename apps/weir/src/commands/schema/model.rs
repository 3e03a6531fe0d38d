//! The schema of models.

use serde_json::{Value, json};
use weir_flow::Catalog;
use weir_graph::keys;

use super::named_in_catalog;
use super::sections::properties;
use super::shapes::{closed, merge, spec_properties, without_release};

/// One of the heads, or, where a model is known by name, the keys of any.
pub(super) fn model(catalog: &Catalog) -> Value {
    let mut shared = properties("model", keys::MODEL, catalog);
    shared.remove("head");
    let mut variants = Vec::new();
    let mut all = shared.clone();
    for head in &catalog.heads {
        let mut keys = shared.clone();
        keys.insert("head".to_owned(), named_in_catalog(head.name, head.about));
        for (name, value) in spec_properties(&format!("head {}", head.name), &head.keys) {
            merge(&mut all, &name, &without_release(value.clone()));
            keys.insert(name, value);
        }
        variants.push(closed(&["head"], keys));
    }
    variants.push(closed(&[], all));
    json!({ "oneOf": variants })
}
