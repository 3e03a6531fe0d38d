//! The topology of a graph: successors of modules, and the paths of requests through them.

use serde::{Deserialize, Serialize};

use crate::id::ModuleId;

/// Paths enumerated at most: estimates over a graph with more use these.
const MAX_PATHS: usize = 4_096;

/// The modules of a graph in topological order, and the edges between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Edges")]
pub struct Topology {
    successors: Vec<Vec<ModuleId>>,
}

/// The serialized form.
#[derive(Deserialize)]
struct Edges {
    successors: Vec<Vec<ModuleId>>,
}

impl From<Edges> for Topology {
    fn from(edges: Edges) -> Self {
        Self::new(edges.successors)
    }
}

impl Topology {
    /// From the successors of each module, by id. Edges to unknown or earlier modules are removed, so that every path ends.
    #[must_use]
    pub fn new(mut successors: Vec<Vec<ModuleId>>) -> Self {
        let modules = successors.len();
        for (module, successors) in successors.iter_mut().enumerate() {
            successors.retain(|successor| (module + 1..modules).contains(&successor.index()));
        }
        Self { successors }
    }

    /// Number of modules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.successors.len()
    }

    /// Whether there are no modules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.successors.is_empty()
    }

    /// Direct successors of a module.
    #[must_use]
    pub fn successors(&self, module: ModuleId) -> &[ModuleId] {
        self.successors.get(module.index()).map_or(&[], Vec::as_slice)
    }

    /// Modules without predecessors: requests enter there.
    #[must_use]
    pub fn entry_modules(&self) -> Vec<ModuleId> {
        let all = (0..).map(ModuleId).zip(self.predecessors());
        all.filter(|(_, before)| before.is_empty())
            .map(|(module, _)| module)
            .collect()
    }

    /// Every path from `module`, exclusive, to a last module. One empty path if `module` is a last one.
    #[must_use]
    pub fn paths_after(&self, module: ModuleId) -> Vec<Vec<ModuleId>> {
        let mut paths = Vec::new();
        let mut open = vec![(module, Vec::new())];
        while let Some((at, path)) = open.pop() {
            let next = self.successors(at);
            if next.is_empty() && paths.len() < MAX_PATHS {
                paths.push(path);
                continue;
            }
            if open.len() + paths.len() >= MAX_PATHS {
                continue;
            }
            for &follower in next.iter().rev() {
                let mut longer = path.clone();
                longer.push(follower);
                open.push((follower, longer));
            }
        }
        paths
    }

    /// Every path of the graph through `module`, from an entry module to a last one, `module` included.
    #[must_use]
    pub fn paths_through(&self, module: ModuleId) -> Vec<Vec<ModuleId>> {
        let after = self.paths_after(module);
        self.paths_to(module)
            .into_iter()
            .flat_map(|before| {
                after.iter().map(move |after| {
                    let mut path = before.clone();
                    path.push(module);
                    path.extend(after);
                    path
                })
            })
            .take(MAX_PATHS)
            .collect()
    }

    fn paths_to(&self, module: ModuleId) -> Vec<Vec<ModuleId>> {
        let reversed = Self {
            successors: self.predecessors(),
        };
        let mut paths = reversed.paths_after(module);
        for path in &mut paths {
            path.reverse();
        }
        paths
    }

    fn predecessors(&self) -> Vec<Vec<ModuleId>> {
        let mut predecessors = vec![Vec::new(); self.successors.len()];
        for (module, successors) in (0_u32..).zip(&self.successors) {
            for successor in successors {
                predecessors[successor.index()].push(ModuleId(module));
            }
        }
        predecessors
    }

    /// Whether there is a path from `earlier` to `later`.
    #[must_use]
    pub fn has_path(&self, earlier: ModuleId, later: ModuleId) -> bool {
        let mut open = self.successors(earlier).to_vec();
        while let Some(module) = open.pop() {
            if module == later {
                return true;
            }
            // Topological order: no path from a later module leads back to `later`.
            if module < later {
                open.extend(self.successors(module));
            }
        }
        false
    }

    /// Number of modules on the longest path after `module`; 0 for a last one.
    #[must_use]
    pub fn longest_path_len(&self, module: ModuleId) -> usize {
        self.paths_after(module).iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Whether a module has several successors, so that a request can be in two modules at once.
    #[must_use]
    pub fn has_branches(&self) -> bool {
        self.successors.iter().any(|successors| successors.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 -> {1, 2} -> 3, PARD's application `da`.
    fn diamond() -> Topology {
        Topology::new(vec![
            vec![ModuleId(1), ModuleId(2)],
            vec![ModuleId(3)],
            vec![ModuleId(3)],
            vec![],
        ])
    }

    fn ids(paths: &[Vec<ModuleId>]) -> Vec<Vec<u32>> {
        paths
            .iter()
            .map(|path| path.iter().map(|module| module.0).collect())
            .collect()
    }

    #[test]
    fn paths_of_a_diamond() {
        let graph = diamond();
        assert_eq!(ids(&graph.paths_after(ModuleId(0))), [[1, 3], [2, 3]]);
        assert_eq!(ids(&graph.paths_after(ModuleId(3))), [[0_u32; 0]]);
        assert_eq!(ids(&graph.paths_through(ModuleId(1))), [[0, 1, 3]]);
        assert_eq!(ids(&graph.paths_through(ModuleId(3))), [[0, 1, 3], [0, 2, 3]]);
        assert_eq!(graph.entry_modules(), [ModuleId(0)]);
        assert!(graph.has_path(ModuleId(0), ModuleId(3)));
        assert!(!graph.has_path(ModuleId(1), ModuleId(2)));
        assert_eq!(graph.longest_path_len(ModuleId(0)), 2);
        assert!(graph.has_branches());
    }

    #[test]
    fn invalid_and_backward_edges_are_removed() {
        let odd = Topology::new(vec![
            vec![ModuleId(0), ModuleId(7), ModuleId(1)],
            vec![ModuleId(0)],
        ]);
        assert_eq!(odd, Topology::new(vec![vec![ModuleId(1)], vec![]]));
        let read: Topology = serde_json::from_str(r#"{"successors": [[0, 1], [0, 9]]}"#).unwrap();
        assert_eq!(ids(&read.paths_through(ModuleId(1))), [[0, 1]]);
    }
}
