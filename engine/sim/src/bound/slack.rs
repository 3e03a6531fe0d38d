//! Slack of each accepted job, that is how long it waits before it starts, in a segment tree over
//! differences. Moving all later jobs ahead by some time, and finding the least slack among later jobs, both
//! take O(log n).

/// Slack of a job that was removed or has not been added yet.
const NONE: i64 = i64::MAX / 4;

/// A range of jobs: the sum of its differences, and the least running sum of those present in it.
#[derive(Debug, Clone, Copy)]
struct Node {
    sum: i64,
    min: i64,
}

impl Node {
    const EMPTY: Self = Self { sum: 0, min: NONE };

    fn concat(self, right: Self) -> Self {
        let shifted = if right.min == NONE {
            NONE
        } else {
            self.sum + right.min
        };
        Self {
            sum: self.sum + right.sum,
            min: self.min.min(shifted),
        }
    }
}

/// Slacks of jobs `0..n`, which come in order.
#[derive(Debug)]
pub(super) struct Slacks {
    nodes: Vec<Node>,
    leaves: usize,
}

impl Slacks {
    pub(super) fn new(jobs: usize) -> Self {
        let leaves = jobs.next_power_of_two();
        Self {
            nodes: vec![Node::EMPTY; 2 * leaves],
            leaves,
        }
    }

    /// Adds the next job, whose slack is `slack`.
    pub(super) fn push(&mut self, job: usize, slack: i64) {
        // What was moved ahead of it may have left a difference in its own place.
        let sum = slack - (self.nodes[1].sum - self.nodes[self.leaves + job].sum);
        self.set(job, Node { sum, min: sum });
    }

    /// Removes a job; later jobs keep their start times.
    pub(super) fn remove(&mut self, job: usize) {
        let sum = self.nodes[self.leaves + job].sum;
        self.set(job, Node { sum, min: NONE });
    }

    /// Moves the start of all jobs after `job` ahead by this time.
    pub(super) fn advance_after(&mut self, job: usize, by: i64) {
        if job + 1 < self.leaves {
            let Node { sum, min } = self.nodes[self.leaves + job + 1];
            let min = if min == NONE { NONE } else { min - by };
            self.set(job + 1, Node { sum: sum - by, min });
        }
    }

    /// Least slack after `job`, and the last job that has it; `None` if there is no job after it.
    pub(super) fn min_after(&self, job: usize) -> Option<(i64, usize)> {
        // Walk from the leaf to the root, with the nodes to the right of the path and the running sum before
        // them.
        let mut at = self.leaves + job;
        let mut before = 0;
        let mut climb = at;
        while climb > 1 {
            if climb & 1 == 1 {
                before += self.nodes[climb - 1].sum;
            }
            climb >>= 1;
        }
        before += self.nodes[at].sum;
        let mut best: Option<(i64, usize, i64)> = None;
        while at > 1 {
            if at & 1 == 0 {
                let right = self.nodes[at + 1];
                if right.min != NONE {
                    let min = before + right.min;
                    if best.is_none_or(|(value, ..)| min <= value) {
                        best = Some((min, at + 1, before));
                    }
                }
                before += right.sum;
            }
            at >>= 1;
        }
        best.map(|(value, node, before)| (value, self.last_with(value, node, before)))
    }

    fn last_with(&self, value: i64, mut node: usize, mut before: i64) -> usize {
        while node < self.leaves {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            let inside = before + left.sum;
            if right.min != NONE && inside + right.min == value {
                before = inside;
                node = 2 * node + 1;
            } else {
                node *= 2;
            }
        }
        node - self.leaves
    }

    fn set(&mut self, job: usize, leaf: Node) {
        let mut at = self.leaves + job;
        self.nodes[at] = leaf;
        while at > 1 {
            at >>= 1;
            self.nodes[at] = self.nodes[2 * at].concat(self.nodes[2 * at + 1]);
        }
    }
}
