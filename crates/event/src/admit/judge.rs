//! The verdict over a batch that was not admitted quickly, in the contract's order: not
//! decodable, empty, too many, protocol, batch id, then the first event at fault.

use super::emit::{DoorStamp, each_field};
use super::{Admitted, BATCH, BATCH_ID, BatchRules, EVENTS, PROTOCOL_VERSION};
use crate::contract::{Reason, Violation};
use crate::identifier::identifier_ok;
use crate::limits::{self, IDENTIFIER_BYTES_MAX};
use crate::records::Records;
use crate::time::Timestamp;
use crate::verdict::{Code, Rejection};
use crate::view::{CLASS_AUTHENTICATION, EventView};
use crate::wire::{Cursor, Malformed};

/// A batch without its events.
#[derive(Default)]
struct Head<'a> {
    batch_id: &'a [u8],
    protocol_version: u32,
    events: u32,
}

/// Judges a batch. It may still be admitted: its name may come after its events.
pub(super) fn judge_batch(
    body: &[u8],
    rules: &BatchRules<'_>,
    out: &mut Records,
) -> Result<Admitted, Rejection> {
    let head = read_head(body, rules.events_max).map_err(malformed)?;
    if head.events > rules.events_max {
        let detail = format!("the batch holds over {} events", rules.events_max);
        return Err(Rejection::of_batch(Code::BatchTooLarge, detail));
    }
    let stamp = DoorStamp::new(rules, head.batch_id);
    let mut admitted = Admitted::none();
    let mut fault = None;
    let mut cursor = Cursor::new(body);
    let mut index = 0;
    while !cursor.is_empty() {
        let key = cursor.key().map_err(malformed)?;
        if key != EVENTS {
            cursor = cursor.skip(key).map_err(malformed)?;
            continue;
        }
        let event = cursor.block().map_err(malformed)?;
        // Whatever is wrong with an event before it, one that is no event spoils the batch.
        let view = EventView::parse(event).map_err(|error| malformed_event(index, error))?;
        if fault.is_none() {
            match judge_event(event, &view, rules) {
                Ok(()) => {
                    stamp.emit_scattered(event, out);
                    admitted.count(event.len(), view.event_time.unwrap_or_default());
                }
                Err(rejection) => {
                    fault = Some(Rejection {
                        event_index: index,
                        ..rejection
                    })
                }
            }
        }
        index += 1;
    }
    head.check()?;
    fault.map_or(Ok(admitted), Err)
}

/// Reads what names the batch and counts its events; stops counting beyond `events_max`, so
/// that no number of empty events costs more.
fn read_head(body: &[u8], events_max: u32) -> Result<Head<'_>, Malformed> {
    let mut head = Head::default();
    let mut cursor = Cursor::new(body);
    while !cursor.is_empty() && head.events <= events_max {
        match cursor.key()? {
            EVENTS => {
                cursor.block()?;
                head.events += 1;
            }
            BATCH_ID => head.batch_id = cursor.utf8()?,
            PROTOCOL_VERSION => head.protocol_version = cursor.varint()? as u32,
            key => cursor = cursor.skip_unknown(key, BATCH)?,
        }
    }
    Ok(head)
}

impl Head<'_> {
    fn check(&self) -> Result<(), Rejection> {
        if self.events == 0 {
            return Err(Rejection::of_batch(
                Code::EmptyBatch,
                "the batch holds no event",
            ));
        }
        if self.protocol_version != limits::PROTOCOL_VERSION {
            let detail = format!(
                "protocol version {} is not supported, {} is",
                self.protocol_version,
                limits::PROTOCOL_VERSION
            );
            return Err(Rejection::of_batch(
                Code::UnsupportedProtocolVersion,
                detail,
            ));
        }
        let reason = match self.batch_id {
            id if identifier_ok(id) => return Ok(()),
            [] => Reason::Required,
            id if id.len() > IDENTIFIER_BYTES_MAX => Reason::TooLong(IDENTIFIER_BYTES_MAX),
            _ => Reason::NotIdentifier,
        };
        let detail = format!("batch_id {reason}");
        let field = "batch_id".to_owned();
        Err(Rejection {
            code: Code::MalformedBatchId,
            detail,
            field,
            event_index: -1,
        })
    }
}

/// Judges one event, rule by rule. The index is filled in by the caller.
fn judge_event(
    event: &[u8],
    view: &EventView<'_>,
    rules: &BatchRules<'_>,
) -> Result<(), Rejection> {
    if event.len() > rules.event_bytes_max as usize {
        let detail = format!("exceeds {} bytes", rules.event_bytes_max);
        return Err(Rejection::of_batch(Code::InvalidEvent, detail));
    }
    let has_foreign_body = has_foreign_body(event).map_err(malformed)?;
    check(view, has_foreign_body, rules).map_err(|violation| Rejection {
        code: Code::InvalidEvent,
        detail: violation.to_string(),
        field: violation.field.to_owned(),
        event_index: -1,
    })
}

/// True if a payload of another door's stands anywhere in the event, even if the view, which
/// keeps the last, does not show it.
fn has_foreign_body(event: &[u8]) -> Result<bool, Malformed> {
    let mut found = false;
    each_field(Cursor::new(event), |key, _, _| {
        found |= matches!(key >> 3, 110..=114);
        Ok(())
    })?;
    Ok(found)
}

/// The rules of the agents door for one event, in their order.
fn check(
    view: &EventView<'_>,
    has_foreign_body: bool,
    rules: &BatchRules<'_>,
) -> Result<(), Violation> {
    view.check_head()?;
    view.check_host()?;
    view.check_collection()?;
    if view.event_class != CLASS_AUTHENTICATION {
        return Err(Violation {
            field: "event_class",
            reason: Reason::NotAuthentication,
        });
    }
    if has_foreign_body {
        return Err(Violation {
            field: "body",
            reason: Reason::ForeignBody,
        });
    }
    view.check_authentication()?;
    let (oldest, newest) = rules.window();
    check_window(view.event_time, "time.event_time", oldest, newest)?;
    check_window(view.observed_time, "time.observed_time", oldest, newest)
}

fn check_window(
    time: Option<Timestamp>,
    field: &'static str,
    oldest: Timestamp,
    newest: Timestamp,
) -> Result<(), Violation> {
    match time {
        Some(time) if time < oldest => Err(Violation {
            field,
            reason: Reason::TooOld,
        }),
        Some(time) if time > newest => Err(Violation {
            field,
            reason: Reason::TooNew,
        }),
        _ => Ok(()),
    }
}

fn malformed(error: Malformed) -> Rejection {
    Rejection::of_batch(
        Code::MalformedPayload,
        format!("the body is no batch: {error}"),
    )
}

fn malformed_event(index: i32, error: Malformed) -> Rejection {
    Rejection::of_batch(
        Code::MalformedPayload,
        format!("event {index} is no event: {error}"),
    )
}
