//! Servers that a bench starts: as child processes, in folders of their own, watched from outside.

pub mod child;
pub mod folder;
pub mod ops;
pub mod watch;
