//! File operations that durability relies on, by way of the log's fault hooks.

use std::fs::File;
use std::io::Write;
use std::path::Path;

pub fn append(file: &File, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = file;
    file.write_all(bytes)
}

pub fn sync_file(file: &File) -> std::io::Result<()> {
    file.sync_data()
}

pub fn sync_dir(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

pub fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}

pub fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::hard_link(from, to)
}

pub fn unlink(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}
