//! A full disk under the state or the tables: the writer waits, loses nothing, and goes on.

#![allow(clippy::unwrap_used)]

mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use server::{Folder, sshd_lines};

/// A small file system in memory over a folder, where this process may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(dir: &Path) -> Option<Self> {
        std::fs::create_dir_all(dir).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(dir)
            .output()
            .is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("skipped: no file system can be mounted here");
        }
        mounted.then(|| Self(dir.to_path_buf()))
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write(&vec![1; size]).is_ok_and(|taken| taken == size) {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The disk of some folders of the data is full while events come, and then has room again.
fn full_for_a_while(names: &[&str]) {
    let folder = Folder::new();
    let Some(disk) = SmallDisk::mount(&folder.data().with_file_name("disk")) else {
        return;
    };
    std::fs::create_dir_all(folder.data()).unwrap();
    for name in names {
        std::fs::create_dir(disk.0.join(name)).unwrap();
        std::os::unix::fs::symlink(disk.0.join(name), folder.data().join(name)).unwrap();
    }
    let receipts = folder.path("receipts").to_str().unwrap().to_owned();
    let send = |file: &str, lines: usize| {
        let file = folder.write(file, &sshd_lines(lines));
        let args = ["send", "--door", "agents", "--format", "sshd", "--receipts"];
        folder.done(&[&args[..], &[&receipts, &file]].concat());
    };
    let running = folder.serve(&[]);
    send("before.log", 50);
    folder.done(&["drain"]);
    disk.fill();
    send("meanwhile.log", 100);
    let mut status = folder.json(&["status", "--json"]);
    while status["folds"][0]["state"] != "retrying" {
        assert_ne!(status["folds"][0]["state"], "failed", "{status}");
        status = folder.json(&["status", "--json"]);
    }
    let counts = (&status["ledger"]["stored"], &status["backlog"]);
    assert_eq!(counts, (&50.into(), &100.into()), "{names:?}");
    disk.empty();
    folder.done(&["drain"]);
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    let found = (&report["verdict"], &report["stored"]);
    assert_eq!(found, (&"ok".into(), &150.into()), "{names:?}: {report}");
    assert_eq!(running.stop().code(), Some(0));
    let report = folder.json(&["verify", "--receipts", &receipts, "--json"]);
    assert_eq!(report["verdict"], "ok", "{names:?}: {report}");
}

#[test]
fn the_writer_outlasts_a_full_disk_of_the_state() {
    full_for_a_while(&["state"]);
}

#[test]
fn the_writer_outlasts_a_full_disk_of_the_tables() {
    full_for_a_while(&["lake", "tables"]);
}

#[test]
fn files_and_their_links_on_two_file_systems_are_refused_at_the_start() {
    let folder = Folder::new();
    let Some(_disk) = SmallDisk::mount(&folder.data().join("lake")) else {
        return;
    };
    let refused = folder.run(&["serve"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let words = "are on different file systems";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}
