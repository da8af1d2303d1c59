//! One client's connection: HTTP/1.1 in as few system calls as it takes, so that the generator
//! leaves the processor to what is measured.

use std::net::{SocketAddr, ToSocketAddrs as _};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::BenchError;

/// A browser's, so that events are a device's and not a server's.
const USER_AGENT: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Gecko/20100101 \
                          Firefox/133.0";

/// Longest answer that is read: verdicts of 10,000 items and some.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Where requests go, and as whose.
#[derive(Clone, Debug)]
pub struct Endpoint {
    address: SocketAddr,
    /// All of the head but the length of the body.
    head: String,
}

impl Endpoint {
    /// `POST /track` below `url`, of a client of SDKs.
    ///
    /// # Errors
    /// As [`Endpoint::of`].
    pub fn of_sdk(url: &str, client: &str, secret: &str) -> Result<Endpoint, BenchError> {
        let headers = format!(
            "user-agent: {USER_AGENT}\r\nopenpanel-client-id: {client}\r\n\
             openpanel-client-secret: {secret}\r\nopenpanel-sdk-name: bench\r\n"
        );
        Endpoint::of(url, "/track", &headers)
    }

    /// `POST` to a path below `url` (`http://host:port`, perhaps with a path), with header lines,
    /// each ended.
    ///
    /// # Errors
    /// When the address can't be found; https is not spoken.
    pub fn of(url: &str, below: &str, headers: &str) -> Result<Endpoint, BenchError> {
        let bad = || BenchError::Usage(format!("takes http://HOST:PORT, not {url}"));
        let rest = url.strip_prefix("http://").ok_or_else(bad)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = host
            .to_socket_addrs()
            .map_err(|_| bad())?
            .next()
            .ok_or_else(bad)?;
        let path = path.trim_end_matches('/');
        let slash = if path.is_empty() { "" } else { "/" };
        let head = format!(
            "POST {slash}{path}{below} HTTP/1.1\r\nhost: {host}\r\n{headers}\
             content-type: application/json\r\ncontent-length: "
        );
        Ok(Endpoint { address, head })
    }

    /// Connects.
    pub async fn connect(&self) -> Result<Connection, String> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        Ok(Connection {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
        })
    }
}

/// A connection in use.
pub struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Sends a body; gives status and body of the answer.
    pub async fn post(&mut self, to: &Endpoint, body: &str) -> Result<(u16, &[u8]), String> {
        self.request.clear();
        self.request.extend_from_slice(to.head.as_bytes());
        self.request
            .extend_from_slice(body.len().to_string().as_bytes());
        self.request.extend_from_slice(b"\r\n\r\n");
        self.request.extend_from_slice(body.as_bytes());
        let sent = self.stream.write_all(&self.request).await;
        sent.map_err(|error| format!("send: {error}"))?;
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await;
            if read.map_err(|error| format!("receive: {error}"))? == 0 {
                return Err("the connection ended within an answer".to_owned());
            }
            if let Some((status, body)) = whole(&self.answer)? {
                return Ok((status, &self.answer[body..]));
            }
            if self.answer.len() > ANSWER_BYTES_MAX {
                return Err(format!("an answer of over {ANSWER_BYTES_MAX} bytes"));
            }
        }
    }
}

/// Status and start of the body, once all of it is there.
fn whole(answer: &[u8]) -> Result<Option<(u16, usize)>, String> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| "an answer that is no HTTP")?;
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let status = status.ok_or("an answer without a status")?;
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or("an answer without a content-length")?;
    let start = end + 4;
    Ok((answer.len() - start >= length).then_some((status, start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let text = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nx: y\r\n\r\nok";
        for end in 0..text.len() {
            assert_eq!(whole(&text[..end]), Ok(None), "{end}");
        }
        assert_eq!(whole(text), Ok(Some((202, text.len() - 2))));
        assert!(whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "no length");
        assert!(whole(b"garbage\r\n\r\n").is_err());
    }

    #[test]
    fn a_url_may_have_a_path() {
        let endpoint = Endpoint::of_sdk("http://127.0.0.1:80/api/", "c", "s").unwrap();
        assert!(
            endpoint
                .head
                .starts_with("POST /api/track HTTP/1.1\r\nhost: 127.0.0.1:80\r\n")
        );
        let endpoint = Endpoint::of_sdk("http://127.0.0.1:80", "c", "s").unwrap();
        assert!(endpoint.head.starts_with("POST /track "));
        assert!(Endpoint::of_sdk("https://127.0.0.1:80", "c", "s").is_err());
    }
}
