//! Everything that a graph may name: the operators, heads and sinks of this build, its models and those of
//! the zoo.

use std::collections::BTreeMap;
use std::path::Path;

use weir_flow::{Catalog, ModelDefaults};
use weir_graph::{Graph, Sources};

use crate::output;
use crate::zoo::Zoo;

/// Everything that graphs of this build may name.
pub fn catalog(zoo: &Zoo) -> Catalog {
    Catalog {
        operators: weir_operators::operators(),
        tracker_keys: weir_analytics::TRACKER_KEYS,
        heads: weir_operators::heads(),
        sinks: weir_operators::sinks::catalog(),
        connection_options: weir_operators::media::CONNECTION_OPTIONS,
        zoo: zoo.hints(),
        embedded: shipped(),
        python: zoo.python().map(Path::to_owned),
    }
}

/// Defaults of the shipped models, by name: head, settings and lengths that a graph need not repeat.
fn shipped() -> BTreeMap<String, ModelDefaults> {
    let hint = |model: &weir_models::Shipped| ModelDefaults {
        head: model.head.clone(),
        settings: model.settings.clone(),
        lengths: model.lengths,
    };
    let models = weir_models::shipped().iter();
    models.map(|model| (model.name.clone(), hint(model))).collect()
}

/// Reads and checks a graph; what looks like a slip is remarked on.
///
/// # Errors
/// All problems at once.
pub fn load(path: &Path, zoo: &Zoo) -> anyhow::Result<Graph> {
    load_for(Sources::Own, path, zoo)
}

/// The same for streams that may take the place of the graph's own.
///
/// # Errors
/// All problems at once.
pub(crate) fn load_for(sources: Sources, path: &Path, zoo: &Zoo) -> anyhow::Result<Graph> {
    let graph = weir_graph::load_for(sources, path, &catalog(zoo), &|name| std::env::var(name).ok())?;
    for warning in graph.warnings() {
        output::remark(&format!("warning: {warning}"));
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use weir_policy::generate::LengthSource;
    use weir_policy::lengths::LengthNets;

    #[test]
    fn nets_that_ship_predict_lengths() {
        let shipped = weir_models::find("scribe").and_then(|model| model.lengths);
        let nets: LengthNets =
            serde_json::from_str(shipped.expect("scribe has nets")).expect("they are nets");
        for source in [LengthSource::Experts, LengthSource::Single] {
            let [few, many] = [3_u32, 200].map(|tokens| {
                let prompt: Vec<u32> = (0..tokens).map(|token| token % 274).collect();
                nets.predict(source, &prompt).expect("a length")
            });
            assert!((1..=60).contains(&few) && few < many, "{source:?}: {few}, {many}");
        }
    }
}
