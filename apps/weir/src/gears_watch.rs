//! The gears of a run that goes on: their file is looked at, and what is written over it comes into force.

use std::path::Path;
use std::time::SystemTime;

use weir_graph::{Graph, read_gears};
use weir_policy::gears::Gears;
use weir_runtime::NextGears;

/// Gives the gears of the graph's file each time that they are others; `None` where the graph has no such file. A file that is
/// being written is left until it stays as it is. One that is wrong, or of another graph, is reported once, and the gears in force
/// go on.
pub(crate) fn watch(graph: &Graph) -> Option<NextGears> {
    let mut in_force = graph.gears()?.clone();
    let graph = graph.clone();
    let path = in_force.file.clone();
    // It may have been written since the graph was read: so the first version is looked at, too.
    let mut taken = None;
    let mut last = None;
    Some(Box::new(move || {
        let now = version(&path);
        let is_settled = std::mem::replace(&mut last, now) == now;
        if now.is_none() || !is_settled || now == taken {
            return None;
        }
        taken = now;
        next(&path, &graph, &mut in_force)
    }))
}

fn next(path: &Path, graph: &Graph, in_force: &mut Gears) -> Option<Gears> {
    match read_gears(path, graph) {
        Ok(gears) if gears == *in_force => None,
        Ok(gears) => {
            tracing::info!(path = %path.display(), number = gears.number, "other gears were written");
            in_force.clone_from(&gears);
            Some(gears)
        }
        Err(reason) => {
            tracing::error!("{}: {reason}; the current gears stay active", path.display());
            None
        }
    }
}

/// Time and size: they differ between two writings of a file.
fn version(path: &Path) -> Option<(SystemTime, u64)> {
    let known = std::fs::metadata(path).ok()?;
    Some((known.modified().ok()?, known.len()))
}

#[cfg(test)]
mod tests {
    use weir_flow::Catalog;

    use super::*;

    const GRAPH: &str = r#"
        [app]
        name = "street"
        slo = "500ms"
        gears = "gears.toml"
        [sources.camera]
        uri = "emulated:uniform?rate=10"
        [devices."emulated:a"]
        slots = 1
        [models.small]
        device = "emulated:a"
        profile = { "1" = "2ms" }
        [models.large]
        device = "emulated:a"
        profile = { "1" = "20ms" }
        [modules.read]
        operator = "emulate"
        inputs = ["camera"]
        cascade = [{ model = "small", certainty = 0.5 }, { model = "large" }]
    "#;

    fn gears(number: u64) -> String {
        format!(
            "graph = \"street\"\nnumber = {number}\n[[gears]]\nup_to = {number}0\n[gears.cascades]\n\
             read = [{{ model = \"small\" }}]\n"
        )
    }

    #[test]
    fn gears_that_are_written_over_are_given_once_and_half_a_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gears.toml");
        std::fs::write(&path, gears(1)).unwrap();
        let at = folder.path().join("graph.toml");
        let Ok(graph) = weir_graph::parse(GRAPH, &at, &Catalog::default(), &|_| None) else {
            panic!("the graph is not read");
        };
        let mut next = watch(&graph).unwrap();
        let mut look = || [next(), next(), next()].map(|gears| gears.map(|gears| gears.number));
        assert_eq!(look(), [None; 3], "those of the graph are in force already");
        std::fs::write(&path, &gears(27)[..40]).unwrap();
        assert_eq!(look(), [None; 3], "half of it");
        std::fs::write(&path, gears(27).replace("street", "other street")).unwrap();
        assert_eq!(look(), [None; 3], "of another graph");
        std::fs::write(&path, gears(27)).unwrap();
        assert_eq!(look(), [None, Some(27), None], "once, when it stays as it is");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(look(), [None; 3]);
    }
}
