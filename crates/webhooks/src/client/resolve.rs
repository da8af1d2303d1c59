//! Names to addresses, kept for a moment.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How long an answer is used again: records of receivers seldom live shorter, and an address is
/// judged at each new connection whatever its age.
const KEPT: Duration = Duration::from_secs(30);
/// Names kept.
const NAMES_MAX: usize = 10_000;

/// What a name resolves to.
pub type Addresses = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>>>>;

/// Asks for the addresses of names.
pub trait Resolver {
    /// All addresses of a name.
    fn resolve(&self, host: &str) -> Addresses;
}

/// The system's resolver.
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> Addresses {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Answers that were given a moment ago.
#[derive(Default)]
pub(super) struct Names {
    known: RefCell<HashMap<String, (Instant, Vec<IpAddr>)>>,
}

impl Names {
    pub(super) async fn addresses(
        &self,
        host: &str,
        resolver: &dyn Resolver,
    ) -> io::Result<Vec<IpAddr>> {
        if let Some((at, addresses)) = self.known.borrow().get(host)
            && at.elapsed() < KEPT
        {
            return Ok(addresses.clone());
        }
        let addresses = resolver.resolve(host).await?;
        let mut known = self.known.borrow_mut();
        if known.len() >= NAMES_MAX {
            known.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if known.len() < NAMES_MAX {
            known.insert(host.to_owned(), (Instant::now(), addresses.clone()));
        }
        Ok(addresses)
    }
}
