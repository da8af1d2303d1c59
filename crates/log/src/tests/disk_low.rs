//! The doors close before the disk is full and open again by themselves (L3).

use std::process::Command;

use super::*;

/// In a child process: the disk has what a file says.
#[test]
fn child_on_a_low_disk() {
    let Some(free) = std::env::var_os("FULMAR_FAULT_FREE_BYTES_FILE") else {
        return;
    };
    let set_free = |bytes: u64| std::fs::write(&free, bytes.to_string()).unwrap();
    let dir = scratch();
    set_free(3 << 30);
    // Of 100 GiB, 3 % are 3 GiB.
    let config = LogConfig {
        disk_floor_bytes: None,
        ..config(1 << 16)
    };
    let journal = open_with(dir.path(), &config);
    append(&journal, "a");
    set_free((3 << 30) - 1);
    assert!(journal.shared.disk.look());
    let refused = journal.append_blocking(one("b")).unwrap_err();
    assert!(matches!(refused, LogError::DiskLow { .. }), "{refused}");
    assert_eq!(journal.stats().refused_disk_low, 1);
    set_free((6 << 30) - 1);
    assert!(journal.shared.disk.look(), "not before twice the floor");
    set_free(6 << 30);
    assert!(!journal.shared.disk.look());
    assert_eq!(append(&journal, "c"), 1);
}

#[test]
fn appends_are_refused_below_the_floor_and_go_on_at_twice_that() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::disk_low::child_on_a_low_disk"])
        .env("FULMAR_FAULT_FREE_BYTES_FILE", file.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_queue_is_bounded_and_a_lone_append_always_fits() {
    let dir = scratch();
    let config = LogConfig {
        queue_bytes_max: 100,
        ..config(1 << 20)
    };
    let journal = open_with(dir.path(), &config);
    append(&journal, &"x".repeat(500));
    // The lock keeps the commit thread from taking what is queued.
    let queue_is_held = {
        let mut queue = crate::shared::lock(&journal.shared.queue);
        queue.bytes += 60;
        queue.bytes
    };
    assert_eq!(queue_is_held, 60);
    let refused = journal.append_blocking(one(&"y".repeat(50))).unwrap_err();
    assert!(
        matches!(
            refused,
            LogError::Full {
                queued_bytes: 60,
                ..
            }
        ),
        "{refused}"
    );
    append(&journal, "fits");
    crate::shared::lock(&journal.shared.queue).bytes -= 60;
    append(&journal, &"y".repeat(50));
    assert_eq!(journal.stats().refused_full, 1);
}
