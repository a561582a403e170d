//! The table of those who wait: at most 64 rows, cumulative, finest at the front.

use crate::model::exchange::TableRow;
use crate::model::order::OrderKey;
use crate::model::pacing::Cell;

/// Rows of a table, at most.
pub(super) const ROWS: usize = 64;

/// The table: `called` wait below the watermark, and what the ascending cells hold above it.
pub(super) fn table(watermark: OrderKey, called: f64, cells: &[Cell]) -> Vec<TableRow> {
    let total: f64 = called + cells.iter().map(|cell| cell.waiting).sum::<f64>();
    let mut rows = Vec::with_capacity(ROWS);
    rows.push(row(watermark, called));
    let (mut sum, mut wanted) = (called, next(called, total, ROWS - 2));
    for cell in cells {
        sum += cell.waiting;
        if sum >= wanted && cell.waiting > 0.0 && rows.len() < ROWS - 1 {
            rows.push(row(cell.to, sum));
            wanted = next(sum, total, ROWS - 1 - rows.len());
        }
    }
    rows.push(row(OrderKey::END, total));
    rows
}

/// When the next row is due: the rows left grow by equal factors, and by one ticket at least.
fn next(sum: f64, total: f64, left: usize) -> f64 {
    let factor = (total / sum.max(1.0)).max(1.0).powf(1.0 / left.max(1) as f64);
    (sum.max(1.0) * factor).max(sum + 1.0).min(total.max(sum + 0.5))
}

fn row(key: OrderKey, waiting: f64) -> TableRow {
    // Who has gone counts until the ticket ends: a long line is not exact.
    let uncertainty = if waiting < 16.0 { 0.0 } else { waiting.sqrt().ceil() };
    TableRow { key, waiting: waiting.ceil() as u32, uncertainty: uncertainty as u32 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::order::BucketStart;

    fn bucket(start: u32, waiting: u32) -> Cell {
        let start = BucketStart(start);
        Cell { from: start.first_key(), to: start.next().first_key(), waiting: f64::from(waiting) }
    }

    #[test]
    fn a_short_line_is_told_cell_by_cell() {
        let cells: Vec<_> = (0..10).map(|start| bucket(start, 1)).collect();
        let table = table(OrderKey(0), 2.0, &cells);
        let waiting: Vec<_> = table.iter().map(|row| row.waiting).collect();
        assert_eq!(waiting, [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12]);
    }

    proptest! {
        #[test]
        fn a_table_is_short_ascending_and_cumulative(
            called in 0_u32..1000, counts in prop::collection::vec(0_u32..10_000, 0..400)
        ) {
            let cells: Vec<_> = (0..).zip(&counts).map(|(start, &count)| bucket(start, count)).collect();
            let table = table(OrderKey(0), f64::from(called), &cells);
            prop_assert!(table.len() <= ROWS);
            prop_assert!(table.windows(2).all(|pair| pair[0].key <= pair[1].key));
            prop_assert!(table.windows(2).all(|pair| pair[0].waiting <= pair[1].waiting));
            let total = called + counts.iter().sum::<u32>();
            prop_assert_eq!(table.last().map(|row| row.waiting), Some(total));
            for row in &table {
                let below = cells.iter().filter(|cell| cell.to <= row.key).map(|cell| cell.waiting).sum::<f64>();
                prop_assert_eq!(row.waiting, called + below as u32);
            }
            // The first ticket above a row is told its place to a tenth, but for what one bucket holds.
            for pair in table.windows(2) {
                let widest = f64::from(counts.iter().copied().max().unwrap_or(0));
                let step = f64::from(pair[1].waiting - pair[0].waiting);
                prop_assert!(step <= widest + 2.0 + 0.3 * f64::from(pair[1].waiting));
            }
        }
    }
}
