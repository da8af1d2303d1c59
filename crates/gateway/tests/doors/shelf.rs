//! A log that keeps what it is given, waits, or fails, as the test says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fulmar_event::Records;
use fulmar_gateway::backbone::{Appending, Backbone, BackboneError, Placed};
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

pub struct Shelf {
    kept: Mutex<Vec<Records>>,
    next_offset: AtomicU64,
    fails: AtomicBool,
    fails_once: AtomicBool,
    /// Appends pass when they get one of these.
    passes: Arc<Semaphore>,
    /// Appends that were asked for.
    pub asked: watch::Sender<usize>,
}

/// More passes than any test needs.
const OPEN: usize = 1_000_000;

impl Shelf {
    pub fn open() -> Arc<Self> {
        Arc::new(Self {
            kept: Mutex::default(),
            next_offset: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            fails_once: AtomicBool::new(false),
            passes: Arc::new(Semaphore::new(OPEN)),
            asked: watch::channel(0).0,
        })
    }

    /// A log that answers nothing until it is let go.
    pub fn held() -> Arc<Self> {
        let shelf = Self::open();
        shelf.passes.forget_permits(OPEN);
        shelf
    }

    pub fn let_go(&self) {
        self.passes.add_permits(OPEN);
    }

    pub fn fail(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }

    pub fn fail_once(&self) {
        self.fails_once.store(true, Ordering::SeqCst);
    }

    pub fn records(&self) -> Vec<Vec<u8>> {
        let kept = self.kept.lock().unwrap();
        let records = kept.iter().flat_map(|records| records.iter());
        records
            .map(|record| record.unwrap().bytes.to_vec())
            .collect()
    }

    /// Waits until so many appends were asked for.
    pub async fn asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        let reached = asked.wait_for(|asked| *asked >= count);
        tokio::time::timeout(Duration::from_secs(20), reached)
            .await
            .unwrap()
            .unwrap();
    }
}

/// The backbone is the shared shelf.
pub struct OnShelf(pub Arc<Shelf>);

impl Backbone for OnShelf {
    fn append(&self, records: Records) -> Appending {
        let shelf = Arc::clone(&self.0);
        shelf.asked.send_modify(|asked| *asked += 1);
        Box::pin(async move {
            shelf.passes.acquire().await.unwrap().forget();
            let once = shelf.fails_once.swap(false, Ordering::SeqCst);
            if once || shelf.fails.load(Ordering::SeqCst) {
                let cause = "secret cause: /var/lib/disk7 is on fire";
                return Err(BackboneError::Other(cause.to_owned()));
            }
            let count = u64::from(records.count());
            let first_offset = shelf.next_offset.fetch_add(count, Ordering::SeqCst);
            shelf.kept.lock().unwrap().push(records);
            Ok(Placed { first_offset })
        })
    }
}
