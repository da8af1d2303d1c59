//! Batches made once and numbered anew for each sending: ids are patched into
//! encoded bytes, so that the load costs a copy and not an encoding.

use fulmar_event::{AuthenticationDraft, BatchBuilder, Timestamp};

/// Bytes of an id: `rrrrrrrr-aaaa-ssssssssssss`, hex of run, agent, sequence.
pub const ID_BYTES: usize = 26;

/// Stands where ids go; no other text of a batch is like it.
const PLACEHOLDER: &[u8; ID_BYTES] = b"zzzzzzzz-zzzz-zzzzzzzzzzzz";

/// An event's place in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The run, random.
    pub run: u32,
    /// The agent, from 0.
    pub agent: u16,
    /// The event of that agent, from 0.
    pub sequence: u64,
}

impl Number {
    /// The id as text.
    pub fn id(self) -> [u8; ID_BYTES] {
        let mut id = *PLACEHOLDER;
        put_hex(u64::from(self.run), &mut id[..8]);
        put_hex(u64::from(self.agent), &mut id[9..13]);
        put_hex(self.sequence, &mut id[14..]);
        id
    }

    /// Reads an id of any run; `None` for one that is not ours.
    pub fn parse(id: &str) -> Option<Number> {
        let bytes = id.as_bytes();
        if bytes.len() != ID_BYTES || bytes[8] != b'-' || bytes[13] != b'-' {
            return None;
        }
        Some(Number {
            run: u32::from_str_radix(id.get(..8)?, 16).ok()?,
            agent: u16::from_str_radix(id.get(9..13)?, 16).ok()?,
            sequence: u64::from_str_radix(id.get(14..)?, 16).ok()?,
        })
    }
}

/// A batch with holes for its ids.
#[derive(Clone)]
pub struct Template {
    bytes: Vec<u8>,
    /// Where the batch's id and then each event's stands.
    places: Vec<usize>,
}

impl Template {
    /// A batch of `events` failed SSH logons of the last seconds, about 290
    /// bytes each, no two alike.
    pub fn new(events: u32, now: Timestamp) -> Template {
        let placeholder = std::str::from_utf8(PLACEHOLDER).expect("it is ASCII");
        let mut batch = BatchBuilder::new(placeholder);
        for event in 0..events {
            let user = format!("user{}", event % 97);
            let ip = format!("203.0.113.{}", event % 251);
            let port = 1_024 + (event * 37) % 60_000;
            let raw = format!(
                "Dec 10 06:55:{:02} web-01 sshd[{}]: Failed password for invalid user {user} \
                 from {ip} port {port} ssh2",
                event % 60,
                10_000 + event,
            );
            let nanos = 1_000_000 * (1 + event % 900);
            batch.push(&AuthenticationDraft {
                event_id: placeholder,
                event_time: Timestamp {
                    seconds: now.seconds - 5,
                    nanos,
                },
                observed_time: Timestamp {
                    seconds: now.seconds - 4,
                    nanos,
                },
                host_hostname: "web-01",
                collector: "bench",
                collection_source: "/var/log/auth.log",
                sequence: u64::from(event) + 1,
                activity: 1,
                outcome: 2,
                outcome_reason: "invalid_user",
                method: "password",
                user_name: &user,
                service_name: "sshd",
                service_protocol: "ssh",
                source_ip: &ip,
                source_port: port,
                transport: 1,
                raw_record: &raw,
                ..AuthenticationDraft::default()
            });
        }
        let bytes = batch.into_bytes();
        let places = bytes
            .windows(ID_BYTES)
            .enumerate()
            .filter(|(_, window)| *window == PLACEHOLDER)
            .map(|(at, _)| at)
            .collect();
        Template { bytes, places }
    }

    /// The batch whose first event is `first`; the others follow.
    pub fn fill(&self, first: Number) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let (batch, events) = self.places.split_first().expect("a batch has its id");
        bytes[*batch..batch + ID_BYTES].copy_from_slice(&first.id());
        for (index, place) in events.iter().enumerate() {
            let number = Number {
                sequence: first.sequence + index as u64,
                ..first
            };
            bytes[*place..place + ID_BYTES].copy_from_slice(&number.id());
        }
        bytes
    }
}

fn put_hex(mut value: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_event::{BatchRules, EventView, RecordIter, Records, admit_batch};

    #[test]
    fn an_id_is_read_back() {
        let number = Number {
            run: 0xdead_beef,
            agent: 15,
            sequence: 123_456_789_012,
        };
        let id = number.id();
        let text = std::str::from_utf8(&id).unwrap();
        assert_eq!(text, "deadbeef-000f-001cbe991a14");
        assert_eq!(Number::parse(text), Some(number));
        for other in [
            "",
            "deadbeef-000f-001cbe991a1",
            "deadbeefx000f-001cbe991a14",
            text_of_z(),
        ] {
            assert_eq!(Number::parse(other), None, "{other}");
        }
    }

    fn text_of_z() -> &'static str {
        std::str::from_utf8(PLACEHOLDER).unwrap()
    }

    #[test]
    fn a_filled_batch_is_admitted_with_its_ids_in_order() {
        let now = Timestamp {
            seconds: 1_800_000_000,
            nanos: 0,
        };
        let template = Template::new(500, now);
        let first = Number {
            run: 7,
            agent: 3,
            sequence: 1_000,
        };
        let body = template.fill(first);
        assert!(
            body.len() / 500 > 250 && body.len() / 500 < 330,
            "{}",
            body.len() / 500
        );
        let rules = BatchRules {
            agent_id: "bench-3",
            project: "default",
            gateway: "g",
            now,
            age_max_seconds: 60,
            skew_max_seconds: 0,
            events_max: 500,
            event_bytes_max: 65_536,
            control_offset: 0,
            partition: 0,
        };
        let mut records = Records::new();
        assert_eq!(
            admit_batch(&body, &rules, &mut records).unwrap().events,
            500
        );
        for (index, record) in RecordIter::new(records.bytes()).enumerate() {
            let event = EventView::parse(record.unwrap().bytes).unwrap();
            let want = Number {
                sequence: 1_000 + index as u64,
                ..first
            };
            assert_eq!(Number::parse(event.event_id), Some(want));
        }
    }
}
