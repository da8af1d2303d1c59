//! Calls of the API of published events, with a key.

use serde_json::Value;

use super::{Folder, Server, http_with};

/// Allows receivers on this machine.
pub const LOCAL: [&str; 2] = ["--set", "webhooks.allowed_networks=127.0.0.1/32"];

/// A server with the type `order.paid`, its operator, and who publishes.
pub fn start(folder: &Folder) -> (Server, Caller, Caller) {
    let server = folder.serve(&LOCAL);
    let operator = Caller::operator(folder, &server);
    operator.done("POST", "/v1/event-types", r#"{"name":"order.paid"}"#);
    let publisher = Caller::publisher(folder, &server);
    (server, operator, publisher)
}

/// A client of the API.
pub struct Caller {
    address: String,
    key: String,
}

impl Caller {
    /// The operator, with the key that the first start made.
    pub fn operator(folder: &Folder, server: &Server) -> Self {
        Self::with_key_file(
            server,
            folder.data().join("keys/admin.key").to_str().unwrap(),
        )
    }

    /// Who publishes, with the key that the first start made.
    pub fn publisher(folder: &Folder, server: &Server) -> Self {
        let file = folder.data().join("keys/ingest.key");
        Self::with_key_file(server, file.to_str().unwrap())
    }

    /// Whoever has the key in a file.
    pub fn with_key_file(server: &Server, file: &str) -> Self {
        Self {
            address: server.public.clone(),
            key: std::fs::read_to_string(file).unwrap().trim().to_owned(),
        }
    }

    /// Status and answer; null where there is no body.
    pub fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let headers = format!("authorization: Bearer {}\r\n", self.key);
        let (status, text) = http_with(&self.address, method, path, &headers, body);
        let value = match text.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        };
        (status, value)
    }

    /// The answer of a call that must be done.
    pub fn done(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.call(method, path, body);
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer}"
        );
        answer
    }

    pub fn get(&self, path: &str) -> Value {
        self.done("GET", path, "")
    }

    /// Publishes an event; its id.
    pub fn publish(&self, consumer: &str, event: &str, body: &Value) -> String {
        let path = format!("/v1/consumers/{consumer}/events?event={event}");
        let answer = self.done("POST", &path, &body.to_string());
        answer["event_id"].as_str().unwrap().to_owned()
    }

    /// A webhook of a consumer; its id.
    pub fn webhook(&self, consumer: &str, fields: &str) -> String {
        let path = format!("/v1/consumers/{consumer}/webhooks");
        let made = self.done("POST", &path, fields);
        made["id"].as_str().unwrap().to_owned()
    }
}
