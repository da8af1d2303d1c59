//! Any sequence of operations gives what a vector would.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Append(Vec<u16>),
    Roll,
    Reopen,
    /// Copies the folder as a kill would leave it and goes on there.
    Kill,
    Release(u8),
    Read(u8, u16),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => proptest::collection::vec(0..3000u16, 1..5).prop_map(Operation::Append),
        1 => Just(Operation::Roll),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Kill),
        1 => any::<u8>().prop_map(Operation::Release),
        4 => (any::<u8>(), 1..9000u16).prop_map(|(at, bytes)| Operation::Read(at, bytes)),
    ]
}

fn text(offset: u64, length: u16) -> String {
    format!("{offset} {}", "z".repeat(length.into()))
}

fn copy_folder(from: &Path) -> tempfile::TempDir {
    let to = scratch();
    for path in segments(from) {
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

struct World {
    dir: tempfile::TempDir,
    journal: Option<Journal>,
    model: Vec<String>,
    start: u64,
}

impl World {
    fn journal(&self) -> &Journal {
        self.journal.as_ref().unwrap()
    }

    fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Append(lengths) => {
                let mut records = Records::new();
                let first = self.model.len() as u64;
                for &length in lengths {
                    let text = text(self.model.len() as u64, length);
                    records.push(length % 16, text.as_bytes());
                    self.model.push(text);
                }
                let appended = self.journal().append_blocking(records).unwrap();
                assert_eq!(appended.first_offset, first);
            }
            Operation::Roll => drop(self.journal().roll().unwrap()),
            Operation::Reopen => {
                self.journal = None;
                self.journal = Some(open_with(self.dir.path(), &config(8192)));
            }
            Operation::Kill => {
                let copy = copy_folder(self.dir.path());
                self.journal = None;
                self.dir = copy;
                self.journal = Some(open_with(self.dir.path(), &config(8192)));
            }
            Operation::Release(part) => {
                // A fold never goes back behind what it let go.
                let position = self.model.len() as u64 * u64::from(*part) / 255;
                let position = position.max(self.start);
                self.journal().release("fold", position);
                self.journal().shared.expire(i64::MAX, &|| false);
                let start = self.journal().start();
                assert!(self.start <= start && start <= position);
                assert!(self.journal().stats().damages.is_empty());
                self.start = start;
            }
            Operation::Read(part, bytes) => self.read(*part, usize::from(*bytes)),
        }
        assert_eq!(self.journal().end(), self.model.len() as u64);
        assert_eq!(self.journal().start(), self.start);
        assert!(self.journal().stats().damages.is_empty());
    }

    fn read(&self, part: u8, bytes_max: usize) {
        let held = self.model.len() as u64 - self.start;
        let mut from = self.start + held * u64::from(part) / 255;
        while let Some(chunk) = self.journal().read(from, bytes_max).unwrap() {
            assert_eq!(chunk.first_offset(), from);
            assert!(chunk.count() > 0);
            for record in &chunk {
                assert_eq!(record.offset, from);
                assert_eq!(record.bytes, self.model[from as usize].as_bytes());
                from += 1;
            }
            assert_eq!(chunk.end_offset(), from);
        }
        assert_eq!(from, self.model.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sequence_of_operations_is_that_of_the_model(
        operations in proptest::collection::vec(operation(), 1..60),
    ) {
        let dir = scratch();
        let journal = Some(open_with(dir.path(), &config(8192)));
        let mut world = World { dir, journal, model: Vec::new(), start: 0 };
        for operation in &operations {
            world.run(operation);
        }
        world.read(0, 1 << 20);
    }
}
