//! What a list of deliveries is asked for, as conditions on rows and on those without one.

use fulmar_registry::{Snapshot, WebhookState};
use fulmar_webhooks::sender::Parked;

use super::deliveries::DeliveryView;
use super::paging::{Page, cursor};
use super::reading::{moment, quoted};
use super::{ApiError, Call};

/// Words that a delivery's status takes, Sparrow's and `cancelled`.
const STATUSES: [&str; 8] = [
    "pending",
    "sending",
    "paused",
    "retrying",
    "success",
    "failed",
    "expired",
    "cancelled",
];

/// Where a delivery stands in lists: newest match last, ids settle ties.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub created_ms: i64,
    pub id: String,
}

impl Place {
    /// That of a delivery without a row.
    pub fn of(parked: &Parked) -> Self {
        Self {
            created_ms: parked.created_ms,
            id: parked.id.to_string(),
        }
    }

    /// The cursor of what comes after it.
    pub fn cursor(&self) -> String {
        cursor(&format!("{}:{}", self.created_ms, self.id))
    }

    /// The one that a page comes before; none for the first page.
    pub fn below(page: &Page) -> Result<Option<Self>, ApiError> {
        let read = |text: &str| {
            let (ms, id) = text.split_once(':')?;
            Some(Self {
                created_ms: ms.parse().ok()?,
                id: id.to_owned(),
            })
        };
        let Some(text) = page.after.as_deref() else {
            return Ok(None);
        };
        let wrong = || ApiError::invalid("cursor", "takes `next_cursor` of an answer");
        read(text).map(Some).ok_or_else(wrong)
    }

    /// In SQL, that a row follows it in a list.
    pub fn followed_by(&self, time: &str, id: &str) -> String {
        let (at, after) = (moment(self.created_ms), quoted(&self.id));
        format!("({time} < {at} OR {time} = {at} AND {id} < {after})")
    }
}

/// A time of the query.
pub fn time_of(call: &Call, name: &'static str) -> Result<Option<i64>, ApiError> {
    let Some(text) = call.query.get(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match text.parse::<jiff::Timestamp>() {
        Ok(time) => Ok(Some(time.as_millisecond())),
        Err(_) => Err(ApiError::invalid(name, "takes an RFC 3339 time")),
    }
}

/// What a list is asked for.
#[derive(Default)]
pub struct Wanted {
    ids: Option<Vec<String>>,
    consumer: Option<String>,
    pub webhook_id: Option<String>,
    event_id: Option<String>,
    event_name: Option<String>,
    subscription_id: Option<String>,
    status: Option<String>,
    error_category: Option<String>,
    after_ms: Option<i64>,
    before_ms: Option<i64>,
    /// Items come before it.
    below: Option<Place>,
}

impl Wanted {
    /// Reads what the path and the query say.
    pub fn of(call: &Call, page: &Page) -> Result<Self, ApiError> {
        let text = |name: &str| {
            let given = call.query.get(name).filter(|text| !text.is_empty());
            given.cloned()
        };
        let status = text("status");
        if status
            .as_deref()
            .is_some_and(|one| !STATUSES.contains(&one))
        {
            let rule = format!("takes {}", STATUSES.join(", "));
            return Err(ApiError::invalid("status", rule));
        }
        Ok(Self {
            ids: None,
            consumer: call.path.get("consumer").cloned(),
            webhook_id: text("webhook_id"),
            event_id: text("event_id"),
            event_name: text("event_name"),
            subscription_id: text("subscription_id"),
            status,
            error_category: text("error_category"),
            after_ms: time_of(call, "created_after")?,
            before_ms: time_of(call, "created_before")?,
            below: Place::below(page)?,
        })
    }

    /// One delivery alone.
    pub fn only(id: &str) -> Self {
        Self::these(vec![id.to_owned()])
    }

    /// Those of these ids.
    pub fn these(ids: Vec<String>) -> Self {
        Self {
            ids: Some(ids),
            ..Self::default()
        }
    }

    /// Whether events must be read to know what of the undecided is wanted.
    pub fn needs_event(&self) -> bool {
        self.event_id.is_some() || self.event_name.is_some()
    }

    /// Whether a delivery is wanted that nothing came of yet, as far as that is known of it.
    pub fn takes(
        &self,
        call: &Call,
        state: &Snapshot,
        webhook: &str,
        parked: &Parked,
        place: &Place,
    ) -> bool {
        let Some(webhook) = state.webhooks.get(webhook) else {
            return false;
        };
        let shown = match webhook.state {
            WebhookState::Active => "pending",
            _ => "paused",
        };
        webhook.project == call.project
            && self
                .consumer
                .as_ref()
                .is_none_or(|one| *one == webhook.consumer)
            && self.status.as_ref().is_none_or(|one| one == shown)
            && self.error_category.is_none()
            && self
                .subscription_id
                .as_ref()
                .is_none_or(|one| **one == *parked.subscription)
            && self.after_ms.is_none_or(|after| parked.created_ms >= after)
            && self
                .before_ms
                .is_none_or(|before| parked.created_ms < before)
            && self.below.as_ref().is_none_or(|below| place < below)
    }

    /// Whether its event is wanted.
    pub fn takes_event(&self, view: &DeliveryView) -> bool {
        self.event_id
            .as_ref()
            .is_none_or(|one| *one == view.event_id)
            && self
                .event_name
                .as_ref()
                .is_none_or(|one| *one == view.event_name)
    }

    /// What all versions of a wanted delivery have in common, and what its last one must be.
    fn conditions(&self, state: &Snapshot, project: &str) -> (String, String) {
        let mut fixed = vec!["true".to_owned()];
        let columns = [
            ("consumer", &self.consumer),
            ("webhook_id", &self.webhook_id),
            ("event_id", &self.event_id),
            ("event_name", &self.event_name),
            ("subscription_id", &self.subscription_id),
        ];
        for (column, value) in columns {
            fixed.extend(value.as_ref().map(|v| format!("{column} = {}", quoted(v))));
        }
        fixed.extend(self.ids.as_ref().map(|ids| {
            let ids: Vec<String> = ids.iter().map(|id| quoted(id)).collect();
            format!("id IN ({})", ids.join(", "))
        }));
        let after = self.after_ms.map(moment);
        fixed.extend(after.map(|at| format!("created_at >= {at}")));
        let before = self.before_ms.map(moment);
        fixed.extend(before.map(|at| format!("created_at < {at}")));
        let below = self.below.as_ref();
        fixed.extend(below.map(|place| place.followed_by("created_at", "id")));
        let mut last = vec!["true".to_owned()];
        let category = self.error_category.as_ref();
        last.extend(category.map(|one| format!("error_category = {}", quoted(one))));
        last.extend(self.status.as_ref().map(|status| {
            let held = state
                .webhooks
                .iter()
                .filter(|(_, one)| one.project == project && one.state != WebhookState::Active);
            let held: Vec<String> = held.map(|(id, _)| quoted(id)).collect();
            let held = match held.is_empty() {
                true => "false".to_owned(),
                false => format!("webhook_id IN ({})", held.join(", ")),
            };
            match status.as_str() {
                "paused" => format!("status = 'retrying' AND {held}"),
                "retrying" => format!("status = 'retrying' AND NOT ({held})"),
                other => format!("status = {}", quoted(other)),
            }
        }));
        (fixed.join(" AND "), last.join(" AND "))
    }

    /// The last versions that are wanted, newest first, with the time of the last attempt.
    pub fn statement(&self, state: &Snapshot, project: &str, limit: usize) -> String {
        let (fixed, last) = self.conditions(state, project);
        format!(
            "WITH last AS (SELECT * FROM deliveries WHERE {fixed} \
             QUALIFY row_number() OVER (PARTITION BY id ORDER BY log_offset DESC) = 1), \
             page AS (SELECT * FROM last WHERE {last} \
             ORDER BY created_at DESC, id DESC LIMIT {limit}), \
             tried AS (SELECT delivery_id, max(started_at) AS at FROM delivery_attempts \
             WHERE delivery_id IN (SELECT id FROM page) GROUP BY delivery_id) \
             SELECT id, webhook_id, subscription_id, event_id, event_name, event_offset, \
             log_offset, consumer, status, \
             attempt_count, max_attempts, epoch_ms(created_at) AS created_ms, \
             epoch_ms(tried.at) AS last_ms, epoch_ms(next_retry_at) AS next_ms, response_code, \
             response_body, error_category, error_message \
             FROM page LEFT JOIN tried ON tried.delivery_id = page.id \
             ORDER BY created_at DESC, id DESC"
        )
    }
}
