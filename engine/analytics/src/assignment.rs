//! Optimal assignment: which track gets which detection, so that the sum of what the pairs gain is greatest.
//!
//! Shortest augmenting paths with dual prices (Jonker and Volgenant, *A Shortest Augmenting Path Algorithm for Dense and
//! Sparse Linear Assignment Problems*, 1987), without their initialisation: O(rows² · columns).

/// Gains of all pairs of rows and columns.
pub(crate) struct Gains {
    rows: usize,
    columns: usize,
    /// Gains row by row; 0 for pairs that must not be formed.
    gains: Vec<f64>,
}

impl Gains {
    /// The gains of `rows` by `columns` pairs. A pair that gains nothing, or less, is never formed.
    pub(crate) fn new(rows: usize, columns: usize, gain: impl Fn(usize, usize) -> f64) -> Self {
        let mut gains = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            gains.extend((0..columns).map(|column| gain(row, column).max(0.0)));
        }
        Self { rows, columns, gains }
    }

    /// The pairs that together gain most, as rows and columns.
    pub(crate) fn assign(&self) -> Vec<(usize, usize)> {
        let pairs: Vec<(usize, usize)> = if self.rows <= self.columns {
            self.assign_rows().into_iter().enumerate().collect()
        } else {
            // Each row must find a column: the other way round.
            let gain = |row: usize, column: usize| self.gains[column * self.columns + row];
            let turned = Self::new(self.columns, self.rows, gain).assign_rows();
            turned
                .into_iter()
                .enumerate()
                .map(|(column, row)| (row, column))
                .collect()
        };
        let gains = |pair: &(usize, usize)| self.gains[pair.0 * self.columns + pair.1] > 0.0;
        pairs.into_iter().filter(gains).collect()
    }

    /// The column of each row, of which there are not more than columns.
    fn assign_rows(&self) -> Vec<usize> {
        let (rows, columns) = (self.rows, self.columns);
        let free = rows;
        // The last column is the root of every path; it holds the row that is to be assigned.
        let mut row_of = vec![free; columns + 1];
        let (mut row_price, mut column_price) = (vec![0.0; rows], vec![0.0; columns + 1]);
        let mut distance = vec![f64::INFINITY; columns];
        let mut before = vec![columns; columns];
        let mut reached = vec![false; columns + 1];
        for row in 0..rows {
            row_of[columns] = row;
            distance.fill(f64::INFINITY);
            reached.fill(false);
            let mut column = columns;
            loop {
                reached[column] = true;
                let from = row_of[column];
                let gains = &self.gains[from * columns..(from + 1) * columns];
                let (mut next, mut least) = (columns, f64::INFINITY);
                for to in (0..columns).filter(|to| !reached[*to]) {
                    let reduced = -gains[to] - row_price[from] - column_price[to];
                    if reduced < distance[to] {
                        (distance[to], before[to]) = (reduced, column);
                    }
                    if distance[to] < least {
                        (next, least) = (to, distance[to]);
                    }
                }
                for to in 0..=columns {
                    if reached[to] {
                        row_price[row_of[to]] += least;
                        column_price[to] -= least;
                    } else {
                        distance[to] -= least;
                    }
                }
                column = next;
                if row_of[column] == free {
                    break;
                }
            }
            while column != columns {
                row_of[column] = row_of[before[column]];
                column = before[column];
            }
        }
        let mut column_of = vec![0; rows];
        for (column, row) in row_of[..columns].iter().enumerate() {
            if *row < rows {
                column_of[*row] = column;
            }
        }
        column_of
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The most that can be gained, by trying everything.
    fn most(row: usize, rows: usize, used: &mut Vec<bool>, gain: &dyn Fn(usize, usize) -> f64) -> f64 {
        if row == rows {
            return 0.0;
        }
        let mut best = most(row + 1, rows, used, gain);
        for column in 0..used.len() {
            if used[column] {
                continue;
            }
            used[column] = true;
            best = best.max(gain(row, column) + most(row + 1, rows, used, gain));
            used[column] = false;
        }
        best
    }

    proptest! {
        #[test]
        fn no_other_assignment_gains_more(
            rows in 0_usize..6, columns in 0_usize..6, gains in prop::collection::vec(-5_i32..20, 36),
        ) {
            let gain = |row: usize, column: usize| f64::from(gains[row * 6 + column]);
            let pairs = Gains::new(rows, columns, gain).assign();
            for (index, (row, column)) in pairs.iter().enumerate() {
                prop_assert!(gain(*row, *column) > 0.0, "a pair that must not be");
                for (other_row, other_column) in &pairs[..index] {
                    prop_assert!(row != other_row && column != other_column, "once each");
                }
            }
            let sum: f64 = pairs.iter().map(|(row, column)| gain(*row, *column)).sum();
            let best = most(0, rows, &mut vec![false; columns], &gain);
            prop_assert!((sum - best).abs() < 1e-6, "{} instead of {}", sum, best);
        }
    }
}
