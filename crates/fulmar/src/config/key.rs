//! What a configuration key is, and the units that bounds are written in.

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const SECOND: u64 = 1_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;

/// What a key takes, with its bounds (inclusive).
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A plain number.
    Count(u64, u64),
    /// Bytes, such as `8MiB`.
    Size(u64, u64),
    /// Milliseconds, written such as `10s`.
    Duration(u64, u64),
    /// `host:port`; port 0 picks a free one.
    Address,
    /// Free text of at most so many bytes; empty is unset.
    Text(usize),
    /// A path; relative ones are relative to the working folder. Empty is unset.
    Path,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A secret; also taken from the file that `NAME_file` names. Never printed.
    Secret,
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// `section.name`. Its environment variable is `FULMAR_SECTION_NAME`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as it would be written.
    pub default: &'static str,
    /// What it does, one line.
    pub doc: &'static str,
}

impl Key {
    /// The name of its environment variable.
    pub fn env(&self) -> String {
        format!(
            "FULMAR_{}",
            self.name.to_ascii_uppercase().replace('.', "_")
        )
    }
}

/// A key.
pub const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
    }
}

/// How long a table's rows are kept.
pub const fn kept(name: &'static str, default: &'static str, doc: &'static str) -> Key {
    key(name, Kind::Duration(DAY, 36_500 * DAY), default, doc)
}
