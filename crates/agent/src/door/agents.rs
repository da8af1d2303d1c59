//! The agents door: protobuf batches over mutual TLS, all or nothing.

use bytes::Bytes;
use fulmar_event::{BatchBuilder, decode_ack, decode_rejection};

use super::http::{Answer, Client};
use super::{Verdict, tls};
use crate::id::event_id;
use crate::item::Item;
use crate::options::CertificateFiles;

/// Where batches go.
const PATH: &str = "/v1/events";

/// What the door is asked to take.
const CONTENT_TYPE: &str = "application/x-protobuf";

/// A client of the agents door.
pub struct AgentsDoor {
    client: Client,
    certificate: CertificateFiles,
}

impl AgentsDoor {
    /// A door that shows the certificate in `certificate`.
    pub fn new(client: Client, certificate: CertificateFiles) -> AgentsDoor {
        AgentsDoor {
            client,
            certificate,
        }
    }

    /// Sends one batch.
    pub async fn send(&mut self, items: &[Item]) -> Verdict {
        let mut batch = BatchBuilder::new(&batch_id(items));
        for item in items {
            batch.push_encoded(&item.bytes);
        }
        let body = Bytes::from(batch.into_bytes());
        let config = || tls::agent_config(&self.certificate).map_err(|e| e.to_string());
        match self
            .client
            .post((PATH, CONTENT_TYPE), body, None, config)
            .await
        {
            Ok(answer) => judge(&answer, items.len()),
            Err(why) => Verdict::Later { after: None, why },
        }
    }
}

/// Names a batch by what is in it, so that a repeat bears the same name.
fn batch_id(items: &[Item]) -> String {
    let first = items.first().map_or("", |item| &item.id);
    let last = items.last().map_or("", |item| &item.id);
    event_id(first, items.len() as u64, last.as_bytes(), 0)
}

/// The reaction to an answer, row by row as the contract has it. Only a 200
/// that says accepted, durable and the right count frees a batch.
fn judge(answer: &Answer, sent: usize) -> Verdict {
    if answer.status == 200 {
        return match decode_ack(&answer.body) {
            Ok(ack) if ack.accepted && ack.durable && ack.received as usize == sent => {
                Verdict::Durable(answer.seen.clone())
            }
            Ok(ack) => later(answer, format!("an acknowledgement that is none: {ack:?}")),
            Err(_) => later(answer, "an acknowledgement that can't be read".to_owned()),
        };
    }
    let refusal = decode_rejection(&answer.body).unwrap_or_default();
    let why = describe(answer.status, &refusal.code, &refusal.detail);
    let index = usize::try_from(refusal.event_index)
        .ok()
        .filter(|index| *index < sent);
    match (answer.status, refusal.code.as_str(), index) {
        (422, "invalid_event", Some(index)) => {
            let window = refusal.field.ends_with("event_time");
            Verdict::Invalid { index, why, window }
        }
        (413, _, _) | (422, "batch_too_large", _) | (400, "malformed_payload", _) => {
            Verdict::TooLarge(why)
        }
        (403, _, _) => {
            let how = "`fulmar agents list` and `register` on the server say and set who may send";
            later(answer, format!("{why}; {how}"))
        }
        _ => later(answer, why),
    }
}

fn later(answer: &Answer, why: String) -> Verdict {
    Verdict::Later {
        after: answer.retry_after,
        why,
    }
}

fn describe(status: u16, code: &str, detail: &str) -> String {
    match (code, detail) {
        ("", _) => format!("status {status}"),
        (code, "") => format!("{code} ({status})"),
        (code, detail) => format!("{code} ({status}): {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Seen;
    use fulmar_event::{Code, Rejection, encode_ack};
    use std::time::Duration;

    fn answer(status: u16, body: Vec<u8>) -> Answer {
        let retry_after = Some(Duration::from_secs(7));
        Answer {
            status,
            retry_after,
            seen: Seen::default(),
            body: Bytes::from(body),
        }
    }

    fn is_later(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Later { after: Some(after), .. } if after.as_secs() == 7)
    }

    #[test]
    fn only_the_full_acknowledgement_frees_a_batch() {
        assert_eq!(
            judge(&answer(200, encode_ack(3)), 3),
            Verdict::Durable(Seen::default())
        );
        let others: [Vec<u8>; 6] = [
            encode_ack(2),
            vec![],
            vec![0x08, 1, 0x18, 3],
            vec![0x10, 1, 0x18, 3],
            vec![0x08, 1, 0x10, 1],
            vec![0xff],
        ];
        for body in others {
            assert!(is_later(&judge(&answer(200, body.clone()), 3)), "{body:?}");
        }
    }

    #[test]
    fn each_refusal_has_its_reaction() {
        let refusal = |code, field: &str, event_index| {
            let field = field.to_owned();
            Rejection {
                code,
                detail: "d".to_owned(),
                field,
                event_index,
            }
            .encode()
        };
        let invalid = refusal(Code::InvalidEvent, "time.event_time", 2);
        let why = "invalid_event (422): d".to_owned();
        let want = Verdict::Invalid {
            index: 2,
            why: why.clone(),
            window: true,
        };
        assert_eq!(judge(&answer(422, invalid.clone()), 3), want);
        let invalid_id = refusal(Code::InvalidEvent, "event_id", 0);
        let want = Verdict::Invalid {
            index: 0,
            why,
            window: false,
        };
        assert_eq!(judge(&answer(422, invalid_id), 3), want);
        // An index beyond what was sent names no event of ours.
        assert!(is_later(&judge(&answer(422, invalid), 2)));
        for (status, code) in [
            (413, Code::BatchBodyTooLarge),
            (422, Code::BatchTooLarge),
            (400, Code::MalformedPayload),
        ] {
            let verdict = judge(&answer(status, refusal(code, "", -1)), 3);
            assert!(matches!(verdict, Verdict::TooLarge(_)), "{code:?}");
        }
        for code in [
            Code::UnreadableBody,
            Code::UnauthenticatedAgent,
            Code::AgentNotAdmitted,
            Code::UnsupportedMediaType,
            Code::UnsupportedProtocolVersion,
            Code::RateLimited,
            Code::GatewayAtCapacity,
            Code::BackboneUnavailable,
        ] {
            assert!(
                is_later(&judge(&answer(code.status(), refusal(code, "", -1)), 3)),
                "{code:?}"
            );
        }
        assert!(is_later(&judge(&answer(500, b"oops".to_vec()), 3)));
    }
}
