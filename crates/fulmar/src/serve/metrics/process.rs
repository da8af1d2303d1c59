//! The process and its folder.

use fulmar_bench::allocation::Allocated;
use fulmar_log::disk;

use super::family::{Family, label};
use crate::serve::live::Live;

/// Figures of the process.
pub fn families(live: &Live) -> Vec<Family> {
    let version = label("version", env!("CARGO_PKG_VERSION"));
    let ready = if live.unready().is_none() { 1.0 } else { 0.0 };
    let revision = live.registry().current().revision as f64;
    let allocated = Allocated::so_far();
    let mut families = vec![
        Family::gauges(
            "fulmar_build_info",
            "The version that runs",
            vec![(version, 1.0)],
        ),
        Family::gauge(
            "fulmar_ready",
            "Whether the doors can accept durably",
            ready,
        ),
        Family::gauge(
            "fulmar_registry_revision",
            "Control records applied",
            revision,
        ),
        Family::counter(
            "fulmar_process_allocations",
            "Allocations since the start",
            allocated.allocations,
        ),
        Family::counter(
            "fulmar_process_allocated_bytes",
            "Bytes allocated since the start",
            allocated.bytes,
        ),
    ];
    if let Ok(space) = disk::space(&live.folder) {
        let help = "Free space of the data folder's file system";
        families.push(Family::gauge(
            "fulmar_disk_free_bytes",
            help,
            space.free_bytes as f64,
        ));
    }
    families
}
