//! The identifier check alone: the table beside the regex, on a UUID and on a short id.

use std::hint::black_box;

use fulmar_event::identifier_ok;

use super::control::Control;
use super::measure::{Cost, Stopwatch};
use super::sample;

/// Ids checked in a call: enough to differ, few enough to stay in the first cache.
pub const IDS: usize = 256;
/// Bytes of the short ids, as the seed measured them.
const SHORT_ID_BYTES: usize = 15;

/// Measures both checks on both lengths once.
pub fn measure(stopwatch: &Stopwatch, control: &Control, costs: &mut Vec<Cost>) {
    let uuids: Vec<String> = (0..IDS as u64).map(sample::event_id).collect();
    let short: Vec<&str> = uuids.iter().map(|uuid| &uuid[..SHORT_ID_BYTES]).collect();
    let uuids: Vec<&str> = uuids.iter().map(String::as_str).collect();
    for (stage, ids) in [("identifier_uuid", &uuids), ("identifier_short", &short)] {
        costs.push(stopwatch.cost("ours", stage, IDS, || {
            for id in black_box(ids) {
                black_box(identifier_ok(id.as_bytes()));
            }
        }));
        costs.push(stopwatch.cost("control", stage, IDS, || {
            for id in black_box(ids) {
                black_box(control.identifier_ok(id));
            }
        }));
    }
}
