//! What became of a delivery, as it stands in the topic `deliveries`: a record an attempt, and one
//! for each end that came without.

use crate::encode;
use crate::wire::{Cursor, Malformed, block_key, varint_key};

/// Where a delivery stands after a record. The discriminant is the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeliveryStatus {
    /// The receiver took it.
    Delivered = 1,
    /// No attempt is left, or none would help.
    Failed = 2,
    /// It is sent again at [`AttemptRecord::due_ms`].
    Retrying = 3,
    /// Its time was over before it was sent.
    Expired = 4,
    /// Its webhook is gone, or somebody took it back.
    Cancelled = 5,
}

impl DeliveryStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Delivered,
        Self::Failed,
        Self::Retrying,
        Self::Expired,
        Self::Cancelled,
    ];

    /// The status of that number.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|status| *status as i32 == number)
    }

    /// The word of tables and of the API, which is Sparrow's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "success",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        self != Self::Retrying
    }
}

/// One record of the topic `deliveries`. Absent text is empty and absent numbers are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AttemptRecord<'a> {
    /// The delivery: 32 hexadecimal digits.
    pub delivery_id: &'a str,
    /// The event's project.
    pub project: &'a str,
    /// The webhook's consumer.
    pub consumer: &'a str,
    /// Where it was sent.
    pub webhook_id: &'a str,
    /// The subscription that matched, or empty.
    pub subscription_id: &'a str,
    /// The event's id, as sent.
    pub event_id: &'a str,
    /// Its name.
    pub event_name: &'a str,
    /// The event's offset in `events`.
    pub event_offset: u64,
    /// When the event was matched with the webhook, ms since the epoch.
    pub created_ms: i64,
    /// See [`DeliveryStatus`].
    pub status: i32,
    /// Number of the attempt; of attempts so far where this record is not of one.
    pub attempt: u32,
    /// Attempts that there can be.
    pub attempts_max: u32,
    /// True if something was sent, or tried to be.
    pub attempted: bool,
    /// When the attempt began or the delivery ended, ms since the epoch.
    pub started_ms: i64,
    /// How long the exchange took, in microseconds.
    pub duration_us: u64,
    /// When the next attempt is due, ms since the epoch.
    pub due_ms: i64,
    /// The receiver's status, or 0.
    pub response_code: u32,
    /// What it answered, as far as it is kept.
    pub response_body: &'a [u8],
    /// The kind of the failure, or empty.
    pub error_category: &'a str,
    /// The phase of the exchange that failed, or empty.
    pub phase: &'a str,
    /// The failure, for people.
    pub error_message: &'a str,
    /// Failed attempts so far that count against the retries: a receiver's 429 does not.
    pub failures: u32,
    /// Somebody asked for this delivery once more: the record that is of no attempt says so, and
    /// those of the attempts that follow.
    pub by_hand: bool,
}

impl<'a> AttemptRecord<'a> {
    /// A record that is of no delivery: what is known of the project's by now is to be forgotten.
    pub fn forget(project: &'a str) -> Self {
        Self {
            project,
            ..Self::default()
        }
    }

    /// The project of a record made by [`AttemptRecord::forget`].
    pub fn forgets(&self) -> Option<&'a str> {
        (*self == Self::forget(self.project) && !self.project.is_empty()).then_some(self.project)
    }

    /// Whether it takes up a delivery that had ended.
    pub fn reopens(&self) -> bool {
        self.by_hand && !self.attempted && self.status == DeliveryStatus::Retrying as i32
    }

    /// Appends the message to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::text(1, self.delivery_id, out);
        encode::text(2, self.project, out);
        encode::text(3, self.consumer, out);
        encode::text(4, self.webhook_id, out);
        encode::text(5, self.subscription_id, out);
        encode::text(6, self.event_id, out);
        encode::text(7, self.event_name, out);
        encode::number(8, self.event_offset, out);
        encode::number(9, self.created_ms as u64, out);
        encode::enumeration(10, self.status, out);
        encode::number(11, u64::from(self.attempt), out);
        encode::number(12, u64::from(self.attempts_max), out);
        encode::number(13, u64::from(self.attempted), out);
        encode::number(14, self.started_ms as u64, out);
        encode::number(15, self.duration_us, out);
        encode::number(16, self.due_ms as u64, out);
        encode::number(17, u64::from(self.response_code), out);
        encode::bytes(18, self.response_body, out);
        encode::text(19, self.error_category, out);
        encode::text(20, self.phase, out);
        encode::text(21, self.error_message, out);
        encode::number(22, u64::from(self.failures), out);
        encode::number(23, u64::from(self.by_hand), out);
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`Malformed`] if it is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        /// Fields 1 to 23.
        const KNOWN: u64 = (1 << 24) - 2;
        const DELIVERY_ID: u32 = block_key(1);
        const PROJECT: u32 = block_key(2);
        const CONSUMER: u32 = block_key(3);
        const WEBHOOK_ID: u32 = block_key(4);
        const SUBSCRIPTION_ID: u32 = block_key(5);
        const EVENT_ID: u32 = block_key(6);
        const EVENT_NAME: u32 = block_key(7);
        const EVENT_OFFSET: u32 = varint_key(8);
        const CREATED: u32 = varint_key(9);
        const STATUS: u32 = varint_key(10);
        const ATTEMPT: u32 = varint_key(11);
        const ATTEMPTS_MAX: u32 = varint_key(12);
        const ATTEMPTED: u32 = varint_key(13);
        const STARTED: u32 = varint_key(14);
        const DURATION: u32 = varint_key(15);
        const DUE: u32 = varint_key(16);
        const RESPONSE_CODE: u32 = varint_key(17);
        const RESPONSE_BODY: u32 = block_key(18);
        const ERROR_CATEGORY: u32 = block_key(19);
        const PHASE: u32 = block_key(20);
        const ERROR_MESSAGE: u32 = block_key(21);
        const FAILURES: u32 = varint_key(22);
        const BY_HAND: u32 = varint_key(23);
        let mut record = Self::default();
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            match cursor.key()? {
                DELIVERY_ID => record.delivery_id = cursor.text()?,
                PROJECT => record.project = cursor.text()?,
                CONSUMER => record.consumer = cursor.text()?,
                WEBHOOK_ID => record.webhook_id = cursor.text()?,
                SUBSCRIPTION_ID => record.subscription_id = cursor.text()?,
                EVENT_ID => record.event_id = cursor.text()?,
                EVENT_NAME => record.event_name = cursor.text()?,
                EVENT_OFFSET => record.event_offset = cursor.varint()?,
                CREATED => record.created_ms = cursor.varint()? as i64,
                STATUS => record.status = cursor.varint()? as i32,
                ATTEMPT => record.attempt = cursor.varint()? as u32,
                ATTEMPTS_MAX => record.attempts_max = cursor.varint()? as u32,
                ATTEMPTED => record.attempted = cursor.varint()? != 0,
                STARTED => record.started_ms = cursor.varint()? as i64,
                DURATION => record.duration_us = cursor.varint()?,
                DUE => record.due_ms = cursor.varint()? as i64,
                RESPONSE_CODE => record.response_code = cursor.varint()? as u32,
                RESPONSE_BODY => record.response_body = cursor.block()?,
                ERROR_CATEGORY => record.error_category = cursor.text()?,
                PHASE => record.phase = cursor.text()?,
                ERROR_MESSAGE => record.error_message = cursor.text()?,
                FAILURES => record.failures = cursor.varint()? as u32,
                BY_HAND => record.by_hand = cursor.varint()? != 0,
                key => cursor = cursor.skip_unknown(key, KNOWN)?,
            }
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: AttemptRecord<'static> = AttemptRecord {
        delivery_id: "00112233445566778899aabbccddeeff",
        project: "default",
        consumer: "acme",
        webhook_id: "wh-1",
        subscription_id: "sub-1",
        event_id: "evt-1",
        event_name: "order.paid",
        event_offset: 1 << 40,
        created_ms: 1_700_000_000_000,
        status: DeliveryStatus::Retrying as i32,
        attempt: 2,
        attempts_max: 4,
        attempted: true,
        started_ms: 1_700_000_000_123,
        duration_us: 2_345,
        due_ms: 1_700_000_060_123,
        response_code: 503,
        response_body: b"busy \xff",
        error_category: "server_error",
        phase: "wait",
        error_message: "the receiver answered 503",
        failures: 1,
        by_hand: true,
    };

    #[test]
    fn what_is_written_is_read() {
        let record = FULL;
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(AttemptRecord::parse(&bytes), Ok(record));
        for cut in 0..bytes.len() {
            assert_ne!(AttemptRecord::parse(&bytes[..cut]), Ok(record));
        }
    }

    #[test]
    fn the_published_contract_names_each_field_that_is_written() {
        let contract = include_str!("../../../proto/fulmar_event_v1.proto");
        let (_, message) = contract.split_once("\nmessage Attempt {\n").unwrap();
        let (message, _) = message.split_once("\n}").unwrap();
        let number = |line: &str| -> u32 {
            let (_, after) = line.split_once(" = ").unwrap();
            after.split_once(';').unwrap().0.parse().unwrap()
        };
        let named: Vec<u32> = message.lines().map(number).collect();
        let mut bytes = Vec::new();
        FULL.encode(&mut bytes);
        let (mut cursor, mut written) = (Cursor::new(&bytes), Vec::new());
        while !cursor.is_empty() {
            let key = cursor.key().unwrap();
            written.push(key >> 3);
            cursor = cursor.skip_unknown(key, 0).unwrap();
        }
        assert_eq!(named, written);
    }

    #[test]
    fn only_a_record_of_no_delivery_asks_to_forget() {
        let asked = AttemptRecord::forget("shop");
        let mut bytes = Vec::new();
        asked.encode(&mut bytes);
        let forgets = |record: AttemptRecord<'static>| record.forgets();
        assert_eq!(forgets(asked), Some("shop"));
        assert_eq!(AttemptRecord::parse(&bytes), Ok(asked));
        assert_eq!(forgets(AttemptRecord::default()), None);
        let delivery_id = "00112233445566778899aabbccddeeff";
        assert_eq!(
            forgets(AttemptRecord {
                delivery_id,
                ..asked
            }),
            None
        );
    }

    #[test]
    fn numbers_of_statuses_are_theirs_alone() {
        for status in DeliveryStatus::ALL {
            assert_eq!(DeliveryStatus::from_number(status as i32), Some(status));
        }
        assert_eq!(DeliveryStatus::from_number(0), None);
    }
}
