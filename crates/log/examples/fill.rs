//! Makes a long log out of a short one: appends its events again and again, each with an id of its
//! own, so that starts and catching up can be measured on a log of any size.
//!
//! `cargo run -p fulmar-log --example fill -- DIR/log GIB`, with no server in DIR.

use std::error::Error;
use std::path::Path;

use fulmar_event::EventView;
use fulmar_log::{Log, LogConfig, Records, Topic};

/// Bytes of one append: what a large batch has.
const APPEND_BYTES: usize = 4 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, gib] = arguments.as_slice() else {
        return Err("takes the folder of a log and a size in GiB".into());
    };
    let goal = gib.parse::<u64>()? << 30;
    let log = Log::open(Path::new(dir), LogConfig::default())?;
    let events = log.journal(Topic::Events);
    let mut templates: Vec<(u16, Vec<u8>, usize, usize)> = Vec::new();
    let mut reader = events.reader(events.start());
    while let Some(chunk) = reader.next(APPEND_BYTES)? {
        for record in &chunk {
            let id = EventView::parse(record.bytes)?.event_id;
            let at = id.as_ptr() as usize - record.bytes.as_ptr() as usize;
            templates.push((record.partition, record.bytes.to_vec(), at, id.len()));
        }
    }
    let mut number = 0_u64;
    let mut waiting = std::collections::VecDeque::new();
    while events.stats().bytes < goal {
        let mut records = Records::with_capacity(APPEND_BYTES + 4096);
        while records.bytes().len() < APPEND_BYTES {
            let turn = number as usize % templates.len();
            let (partition, bytes, at, length) = &mut templates[turn];
            let id = format!("{number:0>length$x}", length = *length);
            bytes[*at..*at + *length].copy_from_slice(&id.as_bytes()[..*length]);
            records.push(*partition, bytes);
            number += 1;
        }
        waiting.push_back(events.append(records));
        if waiting.len() > 3
            && let Some(append) = waiting.pop_front()
        {
            append.wait()?;
        }
    }
    for append in waiting {
        append.wait()?;
    }
    println!("{} events, {} bytes", events.end(), events.stats().bytes);
    log.close();
    Ok(())
}
