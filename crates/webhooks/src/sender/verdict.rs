//! What follows from an attempt. Pure: the clock and the dice are the caller's.

use fulmar_event::DeliveryStatus;
use fulmar_registry::Webhook;

use crate::client::{Category, Control, Fault, Reply};
use crate::retry::{RATE_LIMITED_PAUSE_MS, pause_ms, retry_after_ms};

/// How long a receiver may answer 429 to a delivery that has no deadline, in milliseconds: a day.
const RATE_LIMITED_MS_MAX: i64 = 86_400_000;

/// Why a receiver is given up at once.
const GONE: &str = "the receiver answered 410 Gone";
const DISABLED: &str = "the receiver answered `webhook-delivery: disable`";

/// A delivery before an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// When its event was matched, ms since the epoch.
    pub created_ms: i64,
    /// Failed attempts that count against the retries.
    pub failures: u32,
    /// Somebody asked for it once more: its retries bound it, and no deadline does.
    pub by_hand: bool,
}

/// What follows from an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// Where the delivery stands.
    pub status: DeliveryStatus,
    /// When the next attempt is due; 0 when there is none.
    pub due_ms: i64,
    /// Failed attempts that count, this one too if it does.
    pub failures: u32,
    /// The receiver asked for silence until then; 0 when it did not.
    pub hold_until_ms: i64,
    /// Why the receiver is given up at once, if it wants nothing any more.
    pub gone: Option<&'static str>,
}

/// Judges what came of an attempt that ended at `now_ms`.
#[must_use]
pub fn after(
    webhook: &Webhook,
    before: Before,
    (fault, reply): (Option<&Fault>, Option<&Reply>),
    (now_ms, dice): (i64, f64),
) -> After {
    let mut after = After {
        status: DeliveryStatus::Delivered,
        due_ms: 0,
        failures: before.failures,
        hold_until_ms: 0,
        gone: reply.and_then(|reply| match reply.control {
            Some(Control::Disable) => Some(DISABLED),
            _ => None,
        }),
    };
    let Some(fault) = fault else {
        return after;
    };
    after.status = DeliveryStatus::Failed;
    if fault.category == Category::Gone {
        after.gone.get_or_insert(GONE);
    }
    if reply.is_some_and(|reply| reply.control.is_some()) {
        return after;
    }
    let is_rate_limit = fault.category == Category::RateLimited;
    let is_heeded = |reply: &&Reply| matches!(reply.status, 429 | 503);
    let asked = reply
        .filter(is_heeded)
        .and_then(|reply| reply.retry_after.as_deref());
    let asked_ms = asked.and_then(|text| retry_after_ms(text, now_ms));
    let pause = if is_rate_limit {
        // Waiting is not failing: it costs no retry, and is bounded by time instead.
        after.failures += u32::from(before.by_hand);
        let is_bounded = after.failures <= webhook.retry.retries_max;
        let pause = asked_ms.unwrap_or(RATE_LIMITED_PAUSE_MS);
        Some(pause).filter(|_| is_bounded || !before.by_hand)
    } else {
        after.failures += 1;
        let own = pause_ms(&webhook.retry, after.failures, dice);
        own.map(|own| own.max(asked_ms.unwrap_or(0)))
    };
    let Some(pause) = pause.filter(|_| fault.category.is_retried()) else {
        return after;
    };
    let due_ms = now_ms.saturating_add(pause as i64);
    if is_rate_limit || asked_ms.is_some() {
        after.hold_until_ms = due_ms;
    }
    if due_ms > last_start_ms(webhook, before, is_rate_limit) {
        return after;
    }
    (after.status, after.due_ms) = (DeliveryStatus::Retrying, due_ms);
    after
}

/// The last moment that an attempt may start, ms since the epoch.
#[must_use]
pub fn last_start_ms(webhook: &Webhook, before: Before, is_rate_limit: bool) -> i64 {
    if before.by_hand {
        return i64::MAX;
    }
    let deadline_ms = match webhook.retry.deadline_s {
        Some(seconds) => i64::from(seconds) * 1_000,
        None if is_rate_limit => RATE_LIMITED_MS_MAX,
        None => return i64::MAX,
    };
    before.created_ms.saturating_add(deadline_ms)
}

#[cfg(test)]
mod tests {
    use fulmar_registry::RetryPolicy;

    use super::*;
    use crate::client::Phase;
    use crate::outcome::judge;

    const NOW: i64 = 1_700_000_000_000;

    fn webhook(deadline_s: Option<u32>) -> Webhook {
        Webhook {
            retry: RetryPolicy {
                retries_max: 2,
                backoff_s: 60,
                schedule_s: Vec::new(),
                deadline_s,
            },
            ..Webhook::default()
        }
    }

    fn answered(
        status: u16,
        retry_after: Option<&str>,
        failures: u32,
        deadline: Option<u32>,
    ) -> After {
        let reply = Reply {
            status,
            retry_after: retry_after.map(str::to_owned),
            ..Reply::default()
        };
        let fault = judge(&reply, &[]).err();
        let before = Before {
            created_ms: NOW - 1_000,
            failures,
            by_hand: false,
        };
        let came = (fault.as_ref(), Some(&reply));
        after(&webhook(deadline), before, came, (NOW, 1.0))
    }

    #[test]
    fn a_success_ends_it() {
        let after = answered(200, None, 1, None);
        assert_eq!(
            (after.status, after.failures),
            (DeliveryStatus::Delivered, 1)
        );
    }

    #[test]
    fn failures_are_counted_and_end_with_the_retries() {
        use DeliveryStatus::{Failed, Retrying};
        let of = |failures| {
            let after = answered(500, None, failures, None);
            (after.status, after.due_ms, after.failures)
        };
        assert_eq!(of(0), (Retrying, NOW + 60_000, 1));
        assert_eq!(of(1), (Retrying, NOW + 120_000, 2));
        assert_eq!(of(2), (Failed, 0, 3));
        assert_eq!(answered(404, None, 0, None).status, Failed);
    }

    #[test]
    fn a_429_costs_no_retry_holds_the_lane_and_is_bounded_by_time() {
        let told = answered(429, Some("30"), 2, None);
        assert_eq!(told.status, DeliveryStatus::Retrying);
        assert_eq!(
            (told.due_ms, told.hold_until_ms),
            (NOW + 30_000, NOW + 30_000)
        );
        assert_eq!(told.failures, 2);
        assert_eq!(answered(429, None, 2, None).due_ms, NOW + 60_000);
        let late = answered(429, Some("30"), 0, Some(20));
        assert_eq!(late.status, DeliveryStatus::Failed);
    }

    #[test]
    fn a_503_may_ask_for_more_than_the_own_pause_and_not_for_less() {
        assert_eq!(answered(503, Some("600"), 0, None).due_ms, NOW + 600_000);
        assert_eq!(answered(503, Some("1"), 0, None).due_ms, NOW + 60_000);
        assert_eq!(answered(500, Some("600"), 0, None).due_ms, NOW + 60_000);
    }

    #[test]
    fn no_attempt_starts_after_the_deadline() {
        assert_eq!(
            answered(500, None, 0, Some(61)).status,
            DeliveryStatus::Retrying
        );
        assert_eq!(
            answered(500, None, 0, Some(60)).status,
            DeliveryStatus::Failed
        );
    }

    #[test]
    fn a_delivery_by_hand_has_no_deadline_and_is_bounded_by_its_retries() {
        let of = |category, failures| {
            let fault = Fault::new(category, Phase::Body, "");
            let before = Before {
                created_ms: NOW - 40 * 86_400_000,
                failures,
                by_hand: true,
            };
            let after = super::after(&webhook(Some(60)), before, (Some(&fault), None), (NOW, 1.0));
            (after.status, after.failures)
        };
        for category in [Category::ServerError, Category::RateLimited] {
            assert_eq!(of(category, 0), (DeliveryStatus::Retrying, 1));
            assert_eq!(of(category, 1), (DeliveryStatus::Retrying, 2));
            assert_eq!(of(category, 2), (DeliveryStatus::Failed, 3));
        }
    }

    #[test]
    fn a_410_says_that_the_receiver_is_gone() {
        let after = answered(410, None, 0, None);
        assert_eq!(
            (after.status, after.gone),
            (DeliveryStatus::Failed, Some(GONE))
        );
        let fault = Fault::new(Category::Timeout, Phase::Wait, "");
        let before = Before {
            created_ms: NOW,
            failures: 0,
            by_hand: false,
        };
        let timed_out = super::after(&webhook(None), before, (Some(&fault), None), (NOW, 0.0));
        assert_eq!(timed_out.due_ms, NOW + 30_000);
        assert_eq!(timed_out.gone, None);
    }

    #[test]
    fn a_receiver_may_ask_for_no_retry_or_for_nothing_any_more() {
        let of = |status, control| {
            let reply = Reply {
                status,
                control,
                retry_after: Some("30".to_owned()),
                ..Reply::default()
            };
            let fault = judge(&reply, &[]).err();
            let before = Before {
                created_ms: NOW,
                failures: 0,
                by_hand: false,
            };
            let came = (fault.as_ref(), Some(&reply));
            let after = super::after(&webhook(None), before, came, (NOW, 1.0));
            (after.status, after.gone, after.hold_until_ms)
        };
        use DeliveryStatus::{Delivered, Failed, Retrying};
        for status in [429, 500, 503] {
            assert_eq!(of(status, None).0, Retrying);
            assert_eq!(of(status, Some(Control::AbortMessage)), (Failed, None, 0));
            assert_eq!(
                of(status, Some(Control::Disable)),
                (Failed, Some(DISABLED), 0)
            );
        }
        assert_eq!(of(200, Some(Control::AbortMessage)), (Delivered, None, 0));
        assert_eq!(
            of(200, Some(Control::Disable)),
            (Delivered, Some(DISABLED), 0)
        );
    }
}
