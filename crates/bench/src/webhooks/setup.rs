//! Event types and webhooks of a run, made over the API and removed after it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::publish::Doors;
use super::receiver::Receiver;
use crate::BenchError;
use crate::http::Endpoint;

/// Time for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A server with the API, and the keys to it.
#[derive(Clone, Debug)]
pub struct Server {
    /// `http://host:port`.
    pub url: String,
    /// Sets webhooks up.
    pub key: String,
    /// Publishes.
    pub publish_key: String,
    /// Whose webhooks.
    pub consumer: String,
}

/// What a run has set up.
pub struct Setup {
    /// Where events go.
    pub doors: std::sync::Arc<Doors>,
    /// The webhooks.
    pub webhooks: Vec<String>,
}

impl Server {
    /// Makes `types` event types with `subscribers` webhooks each, at the receiver.
    ///
    /// # Errors
    /// When the server does not do it.
    pub fn set_up(
        &self,
        (event, types, subscribers): (&str, u32, u32),
        receiver: &str,
    ) -> Result<Setup, BenchError> {
        let mut doors = Doors {
            each: Vec::new(),
            all: self.endpoint(&format!("/v1/consumers/{}/events", self.consumer))?,
            types: Vec::new(),
        };
        let mut webhooks = Vec::new();
        for kind in 0..types {
            let name = format!("{event}.{kind}");
            self.call("POST", "/v1/event-types", &json!({ "name": name }))?;
            for subscriber in 0..subscribers {
                let number = kind * subscribers + subscriber;
                let fields = json!({
                    "url": format!("http://{receiver}/hook/{number}"),
                    "events": [name],
                    "http_config": {
                        "max_retries": 3, "retry_backoff_seconds": 1, "request_timeout_seconds": 10,
                    },
                });
                let path = format!("/v1/consumers/{}/webhooks", self.consumer);
                let made = self.call("POST", &path, &fields)?;
                let id = made["id"].as_str().or(made["webhook_id"].as_str());
                webhooks.push(id.unwrap_or_default().to_owned());
            }
            let path = format!("/v1/consumers/{}/events?event={name}", self.consumer);
            doors.each.push(self.endpoint(&path)?);
            doors.types.push(name);
        }
        Ok(Setup {
            doors: std::sync::Arc::new(doors),
            webhooks,
        })
    }

    /// Deletes the webhooks.
    ///
    /// # Errors
    /// When the server does not do it.
    pub fn clean_up(&self, setup: &Setup) -> Result<(), BenchError> {
        for id in &setup.webhooks {
            let path = format!("/v1/consumers/{}/webhooks/{id}", self.consumer);
            self.call("DELETE", &path, &Value::Null)?;
        }
        Ok(())
    }

    fn endpoint(&self, path: &str) -> Result<Endpoint, BenchError> {
        let key = format!("x-api-key: {}\r\n", self.publish_key);
        Endpoint::of(&self.url, path, &key)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, BenchError> {
        let what = || format!("{method} {path} at {}", self.url);
        let host = self.url.strip_prefix("http://").unwrap_or(&self.url);
        let host = host.trim_end_matches('/');
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.key,
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.get(9..12).unwrap_or("no answer");
        if !status.starts_with('2') {
            let why = format!("{status}: {}", body.chars().take(200).collect::<String>());
            return Err(BenchError::Child { what: what(), why });
        }
        Ok(serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

/// The address that webhooks are sent to.
pub fn address_of(receiver: &Receiver, given: Option<&str>) -> String {
    given.map_or_else(|| receiver.address.to_string(), str::to_owned)
}
