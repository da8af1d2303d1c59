//! Pages of lists: by cursor, without totals.

use std::ops::Bound;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{ApiError, Call};

/// Items of a page, where the caller names none, and at most.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 1_000;

/// Which page is asked for.
pub struct Page {
    /// Items at most.
    pub limit: usize,
    /// The key of the last item of the page before.
    pub after: Option<String>,
}

impl Page {
    /// Reads what the query says.
    pub fn of(call: &Call) -> Result<Self, ApiError> {
        let limit = match call.query.get("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => {
                let limit = text
                    .parse()
                    .ok()
                    .filter(|limit| (1..=LIMIT_MAX).contains(limit));
                limit
                    .ok_or_else(|| ApiError::invalid("limit", format!("takes 1 to {LIMIT_MAX}")))?
            }
        };
        if call.query.get("offset").is_some_and(|offset| offset != "0") {
            let told = "offset is not taken: pass `next_cursor` of the page before as `cursor`";
            return Err(ApiError::Malformed(told.to_owned()));
        }
        let after = match call.query.get("cursor").filter(|cursor| !cursor.is_empty()) {
            None => None,
            Some(cursor) => {
                let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
                let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                let wrong = || ApiError::invalid("cursor", "takes `next_cursor` of an answer");
                Some(key.ok_or_else(wrong)?)
            }
        };
        Ok(Self { limit, after })
    }

    /// Where the page begins.
    pub fn start(&self) -> Bound<&str> {
        self.after
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded)
    }

    /// The items of this page out of those from [`Page::start`] on, and the cursor of the next.
    pub fn cut<T>(&self, items: impl Iterator<Item = (String, T)>) -> (Vec<T>, Option<String>) {
        let mut items = items.peekable();
        let (mut page, mut last) = (Vec::new(), None);
        while page.len() < self.limit
            && let Some((key, item)) = items.next()
        {
            page.push(item);
            last = Some(key);
        }
        let next = last.filter(|_| items.peek().is_some());
        (page, next.map(|key| cursor(&key)))
    }
}

/// The cursor of what comes after a key.
pub fn cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}
