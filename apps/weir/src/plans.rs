//! The plan of a run that goes on: its file is looked at, and what is written over it comes into force.

use std::path::PathBuf;
use std::time::SystemTime;

use weir_graph::planning;
use weir_runtime::NextPlan;

/// Gives the plan of a file each time that it is another one. A file that is no plan is reported once and ignored.
pub(crate) fn watch(path: PathBuf) -> NextPlan {
    let mut seen = file_version(&path);
    Box::new(move || {
        let now = file_version(&path);
        if now == seen || now.is_none() {
            return None;
        }
        seen = now;
        match planning::read_plan(&path) {
            Ok(plan) => {
                tracing::info!(path = %path.display(), "another plan was written");
                Some(plan)
            }
            Err(reason) => {
                tracing::error!("{}: {reason}; the current plan stays active", path.display());
                None
            }
        }
    })
}

/// Time and size: they differ between two writings of a file.
fn file_version(path: &PathBuf) -> Option<(SystemTime, u64)> {
    let known = std::fs::metadata(path).ok()?;
    Some((known.modified().ok()?, known.len()))
}
