//! The events door and the SDKs' door: NDJSON with a key, a verdict per event.

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::Deserialize;

use super::http::{Answer, Client};
use super::{Single, Verdict, tls};
use crate::item::Item;

/// What the door is asked to take.
const CONTENT_TYPE: &str = "application/x-ndjson";

/// A client of the events door.
pub struct EventsDoor {
    client: Client,
    path: &'static str,
    authorization: HeaderValue,
    authorities: Option<std::path::PathBuf>,
}

#[derive(Deserialize)]
struct Body {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    index: usize,
    #[serde(default)]
    id: Option<String>,
    status: String,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    dropped: Option<String>,
}

impl EventsDoor {
    /// A door at `path` that is asked with `authorization`; `authorities` are
    /// the server's over TLS.
    pub fn new(
        client: Client,
        path: &'static str,
        authorization: HeaderValue,
        authorities: Option<std::path::PathBuf>,
    ) -> EventsDoor {
        EventsDoor {
            client,
            path,
            authorization,
            authorities,
        }
    }

    /// Sends one request.
    pub async fn send(&mut self, items: &[Item]) -> Verdict {
        let bytes: usize = items.iter().map(|item| item.bytes.len() + 1).sum();
        let mut body = Vec::with_capacity(bytes);
        for item in items {
            body.extend_from_slice(&item.bytes);
            body.push(b'\n');
        }
        let config = || match &self.authorities {
            Some(path) => tls::anonymous_config(path).map_err(|e| e.to_string()),
            None => Err("TLS at the events door needs the server's authorities".to_owned()),
        };
        let authorization = Some(&self.authorization);
        match self
            .client
            .post(
                (self.path, CONTENT_TYPE),
                Bytes::from(body),
                authorization,
                config,
            )
            .await
        {
            Ok(answer) => judge(&answer, items),
            Err(why) => Verdict::Later { after: None, why },
        }
    }
}

/// The reaction to an answer. 200 and 422 bear verdicts; an event without one
/// goes again.
fn judge(answer: &Answer, items: &[Item]) -> Verdict {
    let later = |why: String| Verdict::Later {
        after: answer.retry_after,
        why,
    };
    match answer.status {
        200 | 422 => match serde_json::from_slice::<Body>(&answer.body) {
            Ok(body) => verdicts(answer, body, items),
            Err(_) => later(format!("an answer {} that can't be read", answer.status)),
        },
        // Broken JSON elsewhere than in a line is not ours to make; halving
        // finds the event that a server of another mind calls so.
        400 | 413 => Verdict::TooLarge(problem(answer)),
        401 => later(format!(
            "{}; the key comes from --key-file, FULMAR_KEY or the data folder's keys/ingest.key",
            problem(answer)
        )),
        403 => later(format!(
            "{}; `fulmar keys create NAME --scope ingest` makes a key that may send",
            problem(answer)
        )),
        _ => later(problem(answer)),
    }
}

fn verdicts(answer: &Answer, body: Body, items: &[Item]) -> Verdict {
    let mut singles = vec![Single::Again; items.len()];
    for event in body.events {
        let Some(item) = items.get(event.index) else {
            continue;
        };
        let id = event.id.clone().unwrap_or_else(|| item.id.clone());
        singles[event.index] = match event.status.as_str() {
            "accepted" => Single::Accepted { id },
            "duplicate" => Single::Duplicate { id },
            "refused" => refused(&event),
            // Left out for good, by a rule of the project.
            "dropped" => dropped(&event),
            _ => Single::Again,
        };
    }
    if singles.iter().all(|single| *single == Single::Again) {
        return Verdict::Later {
            after: answer.retry_after,
            why: "the server gave no verdict yet".to_owned(),
        };
    }
    Verdict::Each(answer.seen.clone(), singles)
}

fn dropped(event: &Event) -> Single {
    let rule = event.dropped.as_deref().unwrap_or("a rule of the project");
    Single::Refused {
        why: format!("dropped: {rule}"),
        window: false,
    }
}

fn refused(event: &Event) -> Single {
    let code = event.code.as_deref().unwrap_or("refused");
    let mut why = code.to_owned();
    for part in [&event.field, &event.detail].into_iter().flatten() {
        why = format!("{why}: {part}");
    }
    Single::Refused {
        why,
        window: code == "time_out_of_range",
    }
}

/// Status, and the title and detail of a problem document (RFC 9457).
fn problem(answer: &Answer) -> String {
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let mut why = format!("status {}", answer.status);
    for name in ["code", "title", "detail", "message"] {
        if let Some(text) = json.get(name).and_then(|value| value.as_str()) {
            why = format!("{why}: {text}");
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Seen;
    use std::time::Duration;

    fn judged(status: u16, body: &str) -> Verdict {
        let item = |id: &str| Item {
            id: id.to_owned(),
            time_ms: None,
            bytes: vec![],
        };
        let retry_after = Some(Duration::from_secs(2));
        let body = Bytes::from(body.to_owned());
        let answer = Answer {
            status,
            retry_after,
            seen: Seen::default(),
            body,
        };
        judge(&answer, &[item("a"), item("b"), item("c")])
    }

    #[test]
    fn verdicts_go_to_their_events_and_a_missing_one_is_asked_again() {
        let body = r#"{"accepted":1,"duplicates":0,"refused":1,"events":[
            {"index":2,"id":"c","status":"refused","code":"time_out_of_range","field":"time",
             "detail":"too old"},
            {"index":0,"id":"a2","status":"accepted"},
            {"index":9,"id":"z","status":"accepted"}]}"#;
        let singles = vec![
            Single::Accepted {
                id: "a2".to_owned(),
            },
            Single::Again,
            Single::Refused {
                why: "time_out_of_range: time: too old".to_owned(),
                window: true,
            },
        ];
        assert_eq!(judged(200, body), Verdict::Each(Seen::default(), singles));
        let again = r#"{"events":[{"index":0,"status":"retry"}]}"#;
        assert!(matches!(
            judged(200, again),
            Verdict::Later { after: Some(_), .. }
        ));
    }

    #[test]
    fn statuses_have_their_reactions() {
        assert!(matches!(judged(413, "{}"), Verdict::TooLarge(_)));
        assert!(matches!(judged(400, "{}"), Verdict::TooLarge(_)));
        for status in [200, 401, 403, 404, 422, 429, 500, 503] {
            assert!(matches!(
                judged(status, "x"),
                Verdict::Later { after: Some(_), .. }
            ));
        }
        let problem = judged(401, r#"{"title":"unauthorized","detail":"no such key"}"#);
        let Verdict::Later { after, why } = problem else {
            panic!("{problem:?}");
        };
        assert_eq!(after, Some(Duration::from_secs(2)));
        let said = "status 401: unauthorized: no such key; the key comes from --key-file";
        assert!(why.starts_with(said), "{why}");
    }
}
