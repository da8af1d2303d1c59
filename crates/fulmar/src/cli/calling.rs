//! Calls of the API of published events, from commands: of a running server always.

use fulmar_gateway::http::percent_encoded;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::{Client, read_whole, refusal};
use crate::exit::{Context as _, Failure};
use crate::node::block_on;
use crate::place::{Place, PlaceArgs};

/// Items of a page.
const PAGE: usize = 500;

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).context("the server's answer is not the JSON that it should be")
}

/// The API of a running server.
pub struct Api {
    client: Client,
}

impl Api {
    /// That of the folder's server, or of the one that is named.
    pub fn of(place: &PlaceArgs) -> Result<Self, Failure> {
        match place.resolve()? {
            Place::Server(client) => Ok(Self { client }),
            Place::Folder(data, _) => {
                let folder = data.root().display();
                let told = format!("no server runs: start one with `fulmar serve --data {folder}`");
                Err(Failure::new(told))
            }
        }
    }

    /// The answer of a call; null where it has no body.
    pub fn call(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        match body {
            Value::Null => self.send(method, path, String::new()),
            body => self.send(method, path, body.to_string()),
        }
    }

    /// The same with a body as it is written.
    pub fn send(&self, method: Method, path: &str, body: String) -> Result<Value, Failure> {
        match self.bytes(method, path, body)? {
            bytes if bytes.is_empty() => Ok(Value::Null),
            bytes => read(&bytes),
        }
    }

    /// The answer of a read, as what it is read for.
    pub fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.bytes(Method::GET, path, String::new())?)
    }

    fn bytes(&self, method: Method, path: &str, body: String) -> Result<Vec<u8>, Failure> {
        block_on(async {
            let sent = self
                .client
                .send(method, path, "application/json", body.into());
            let response = sent.await?;
            let status = response.status();
            let bytes = read_whole(response).await?;
            if !status.is_success() {
                return Err(refusal(status, &bytes));
            }
            Ok(bytes)
        })?
    }

    /// The answer of a read.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, &Value::Null)
    }

    /// The first `limit` items of a list, under its name, from as many pages as that takes.
    pub fn list(
        &self,
        (path, member): (&str, &str),
        filters: &[(&str, Option<&str>)],
        limit: usize,
    ) -> Result<Value, Failure> {
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let page = PAGE.min(limit - items.len()).to_string();
            let mut query = vec![("limit", page.as_str())];
            let given = filters.iter();
            query.extend(given.filter_map(|(name, value)| Some((*name, (*value)?))));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let pairs = query.iter();
            let pairs: Vec<String> = pairs
                .map(|(name, value)| format!("{name}={}", percent_encoded(value)))
                .collect();
            let mut answer = self.get(&format!("{path}?{}", pairs.join("&")))?;
            if let Value::Array(found) = answer[member].take() {
                items.extend(found);
            }
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || items.len() >= limit {
                return Ok(json!({ member: items }));
            }
        }
    }
}
