//! Runs one SQL statement over a list of files, confined.

fn main() {}
