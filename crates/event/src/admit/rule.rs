//! The rules of the agents door, a bit each, and the checks that set them.
//!
//! A bit is set as long as its rule is broken: from the start for what is required, and by each
//! occurrence of the field anew, so that the last occurrence counts, as in a decode. An event
//! holds if no bit is left.

use crate::address::address_ok;
use crate::text::utf8_ok;
use crate::values::{block, text};

pub(super) const EVENT_ID: u32 = 1;
pub(super) const SCHEMA_VERSION: u32 = 1 << 1;
pub(super) const EVENT_TIME: u32 = 1 << 2;
pub(super) const OBSERVED_TIME: u32 = 1 << 3;
pub(super) const HOSTNAME: u32 = 1 << 4;
pub(super) const HOST_IP: u32 = 1 << 5;
pub(super) const OS: u32 = 1 << 6;
pub(super) const ARCHITECTURE: u32 = 1 << 7;
pub(super) const COLLECTOR: u32 = 1 << 8;
pub(super) const SOURCE: u32 = 1 << 9;
pub(super) const CLASS: u32 = 1 << 10;
pub(super) const ACTIVITY: u32 = 1 << 11;
pub(super) const OUTCOME: u32 = 1 << 12;
pub(super) const OUTCOME_REASON: u32 = 1 << 13;
pub(super) const METHOD: u32 = 1 << 14;
pub(super) const USER_NAME: u32 = 1 << 15;
pub(super) const USER_DOMAIN: u32 = 1 << 16;
pub(super) const USER_UID: u32 = 1 << 17;
pub(super) const SERVICE_NAME: u32 = 1 << 18;
pub(super) const SERVICE_PROTOCOL: u32 = 1 << 19;
pub(super) const SOURCE_IP: u32 = 1 << 20;
pub(super) const SOURCE_PORT: u32 = 1 << 21;
pub(super) const DESTINATION_IP: u32 = 1 << 22;
pub(super) const DESTINATION_PORT: u32 = 1 << 23;
pub(super) const RAW_RECORD: u32 = 1 << 24;
/// Those of the host.
pub(super) const HOST: u32 = HOSTNAME | HOST_IP | OS | ARCHITECTURE;
/// Broken while the field is absent. With a required leaf the submessages around it are
/// required too, so they need no bits of their own.
pub(super) const REQUIRED: u32 =
    EVENT_ID | SCHEMA_VERSION | EVENT_TIME | OBSERVED_TIME | COLLECTOR | CLASS | ACTIVITY | OUTCOME;

/// The bits with that of `rule` set if `breaks`, else cleared.
#[inline(always)]
pub(super) fn set(broken: u32, rule: u32, breaks: bool) -> u32 {
    broken & !rule | if breaks { rule } else { 0 }
}

/// Reads text of at most `max` bytes.
#[inline(always)]
pub(super) fn limited(rest: &[u8], rule: u32, max: usize, broken: u32) -> Option<(&[u8], u32)> {
    let (text, behind) = text(rest)?;
    Some((behind, set(broken, rule, text.len() > max)))
}

/// Reads an address or none.
#[inline(always)]
pub(super) fn address(rest: &[u8], rule: u32, broken: u32) -> Option<(&[u8], u32)> {
    let (text, behind) = block(rest)?;
    let holds = text.is_empty() || address_ok(text);
    // An address is text; what is none must be that at least.
    (holds || utf8_ok(text)).then(|| (behind, set(broken, rule, !holds)))
}
