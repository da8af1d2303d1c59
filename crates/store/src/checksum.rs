//! CRC32C of whole files: taken while a file is written, kept in the committed list, and compared
//! before what the file holds is believed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::error::{Result, StoreError, io_error};

/// Bytes read at a time when a file is compared: large reads, small memory.
const READ_BYTES: usize = 1 << 20;

/// What is in the list of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// How many there are.
    pub bytes: u64,
    /// Their CRC32C; none for a file of a build that took none.
    pub crc32c: Option<u32>,
}

impl Contents {
    /// Reads the file at `path` and compares it.
    ///
    /// # Errors
    /// When it can't be read, or holds other bytes.
    pub fn check(self, path: &Path) -> Result<()> {
        let mismatch = |reason: String| StoreError::Mismatch {
            path: path.to_owned(),
            reason,
        };
        let mut file = File::open(path).map_err(io_error("open", path))?;
        let bytes = file.metadata().map_err(io_error("read", path))?.len();
        if bytes != self.bytes {
            return Err(mismatch(format!(
                "{bytes} bytes, listed with {}",
                self.bytes
            )));
        }
        let Some(listed) = self.crc32c else {
            return Ok(());
        };
        let found = crc32c_of(&mut file).map_err(io_error("read", path))?;
        if found != listed {
            let reason = format!("CRC32C {found:08x}, listed with {listed:08x}: its bytes changed");
            return Err(mismatch(reason));
        }
        Ok(())
    }
}

fn crc32c_of(file: &mut File) -> io::Result<u32> {
    let mut buffer = vec![0; READ_BYTES];
    let mut crc = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(crc),
            Ok(read) => crc = crc32c::crc32c_append(crc, &buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes the checksum of what passes through it.
pub(crate) struct Checked<W> {
    inner: W,
    crc: u32,
}

impl<W> Checked<W> {
    pub(crate) fn new(inner: W) -> Checked<W> {
        Checked { inner, crc: 0 }
    }

    /// What was written to, and the CRC32C of all that it took.
    pub(crate) fn into_parts(self) -> (W, u32) {
        (self.inner, self.crc)
    }
}

impl<W: Write> Write for Checked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc = crc32c::crc32c_append(self.crc, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720, appendix B.4: 32 bytes of zeros have the CRC32C 8a9136aa.
    const OF_ZEROS: u32 = 0x8a91_36aa;

    /// Takes at most three bytes at a time.
    struct Slow(Vec<u8>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(&bytes[..bytes.len().min(3)])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_what_was_taken_is_counted() {
        let mut checked = Checked::new(Slow(Vec::new()));
        checked.write_all(&[0; 32]).unwrap();
        let (Slow(bytes), crc) = checked.into_parts();
        assert_eq!((bytes.len(), crc), (32, OF_ZEROS));
    }

    #[test]
    fn a_file_of_other_bytes_or_of_none_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [0; 32]).unwrap();
        let listed = Contents {
            bytes: 32,
            crc32c: Some(OF_ZEROS),
        };
        listed.check(&path).unwrap();
        for place in 0..32 {
            let mut bytes = [0; 32];
            bytes[place] = 0x10;
            std::fs::write(&path, bytes).unwrap();
            let refused = listed.check(&path).unwrap_err().to_string();
            assert!(refused.contains("listed with 8a9136aa"), "{refused}");
            let unknown = Contents {
                crc32c: None,
                ..listed
            };
            unknown.check(&path).unwrap();
        }
        std::fs::write(&path, [0; 31]).unwrap();
        let refused = listed.check(&path).unwrap_err().to_string();
        assert!(refused.contains("31 bytes, listed with 32"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        assert!(listed.check(&path).is_err());
    }
}
