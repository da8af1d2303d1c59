//! The writer half: records to rows of Arrow, ours beside the control, the builders' own time
//! measured apart, and Parquet on top.

use std::hint::black_box;
use std::path::PathBuf;

use fulmar_event::{Body, EventView, Records, admit_batch};
use fulmar_store::parquet_file::write_block;
use fulmar_store::tables::{
    SecurityEventRow, SecurityEventsBuilder, TableBuilder, project_security_event,
};

use super::control::rows::RowsControl;
use super::measure::{Cost, Stopwatch};
use super::sample;

/// Rows of a block: what the writer cuts off at 20,000 events/s. Larger ones are no slower a
/// row.
pub const BLOCK_ROWS: usize = 20_000;

/// One block's records, ready to be measured.
pub struct Writer {
    records: Records,
    control: RowsControl,
    builder: SecurityEventsBuilder,
    file: PathBuf,
}

impl Writer {
    /// With a block of records as the agents door writes them.
    pub fn new() -> Self {
        const BATCH_EVENTS: usize = 10_000;
        let mut records = Records::new();
        for batch in 0..BLOCK_ROWS / BATCH_EVENTS {
            let body = sample::batch_from(batch * BATCH_EVENTS, BATCH_EVENTS);
            admit_batch(&body, &sample::rules(), &mut records).expect("the sample is valid");
        }
        let file = format!("fulmar-bench-{}.parquet", std::process::id());
        Self {
            records,
            control: RowsControl::default(),
            builder: SecurityEventsBuilder::default(),
            file: std::env::temp_dir().join(file),
        }
    }

    /// Measures every stage of both sides once, one after the other.
    pub fn measure(&mut self, stopwatch: &Stopwatch, costs: &mut Vec<Cost>) {
        let Self {
            records,
            control,
            builder,
            file,
        } = self;
        let rows: Vec<SecurityEventRow<'_>> = views(records).collect();
        costs.push(stopwatch.cost("ours", "builders", BLOCK_ROWS, || {
            builder.clear();
            rows.iter().for_each(|row| builder.append(black_box(row)));
        }));
        drop(rows);
        costs.push(stopwatch.cost("ours", "view", BLOCK_ROWS, || {
            views(records).for_each(|row| {
                black_box(&row);
            });
        }));
        costs.push(stopwatch.cost("ours", "rows", BLOCK_ROWS, || {
            builder.clear();
            views(records).for_each(|row| builder.append(&row));
        }));
        costs.push(stopwatch.cost("control", "decode_record", BLOCK_ROWS, || {
            for record in records.iter().flatten() {
                black_box(control.decode(record.bytes));
            }
        }));
        costs.push(stopwatch.cost("control", "rows", BLOCK_ROWS, || {
            builder.clear();
            for (offset, record) in records.iter().flatten().enumerate() {
                control.append(record.bytes, record.partition, offset as u64, builder);
            }
        }));
        costs.push(stopwatch.cost("ours", "parquet", BLOCK_ROWS, || {
            builder.clear();
            views(records).for_each(|row| builder.append(&row));
            let order = builder.sorted_order();
            black_box(write_block(builder, &order, file).is_ok());
        }));
    }

    /// Checks that both sides make the same rows.
    ///
    /// # Errors
    /// What differs, in words.
    pub fn check_agreement(&mut self) -> Result<(), String> {
        self.builder.clear();
        views(&self.records).for_each(|row| self.builder.append(&row));
        let ours = self.builder.take_batch();
        for (offset, record) in self.records.iter().flatten().enumerate() {
            let (bytes, offset) = (record.bytes, offset as u64);
            self.control
                .append(bytes, record.partition, offset, &mut self.builder);
        }
        let theirs = self.builder.take_batch();
        if ours.num_rows() != BLOCK_ROWS {
            return Err(format!("{} of {BLOCK_ROWS} rows came out", ours.num_rows()));
        }
        let columns = ours.columns().iter().zip(theirs.columns());
        match columns
            .zip(ours.schema().fields())
            .find(|((ours, theirs), _)| ours != theirs)
        {
            Some((_, field)) => Err(format!("column {} differs", field.name())),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Absent if no Parquet was measured; a file left in the temporary folder harms nobody.
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The rows of records as the writer makes them: read in place, checked, projected.
fn views(records: &Records) -> impl Iterator<Item = SecurityEventRow<'_>> {
    records
        .iter()
        .flatten()
        .enumerate()
        .filter_map(|(offset, record)| {
            let event = EventView::parse(record.bytes).ok()?;
            event.check_contract().ok()?;
            match event.body {
                Body::Authentication(body) => {
                    project_security_event(&event, &body, record.partition, offset as u64).ok()
                }
                _ => None,
            }
        })
}
