//! Objects as tables that other programs read: CSV, MOTChallenge, COCO results.

mod categories;
mod coco;
mod csv;
mod mot;
mod whole_files;

pub(super) use coco::KIND as COCO;
pub(super) use csv::KIND as CSV;
pub(super) use mot::KIND as MOT;
