//! The quick walk over an event's payload: an authentication.

use super::key::{self, skip_unknown};
use super::rule::{self, address, limited, set};
use crate::limits;
use crate::values::{block, number};
use crate::wire::known;

/// Walks an authentication; gives the bits of the rules that are broken.
#[inline(never)]
pub(super) fn authentication(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::NUMBER_1 => {
                let (activity, behind) = number(behind)?;
                (behind, set(broken, rule::ACTIVITY, activity as i32 == 0))
            }
            key::NUMBER_2 => {
                let (outcome, behind) = number(behind)?;
                (behind, set(broken, rule::OUTCOME, outcome as i32 == 0))
            }
            key::BLOCK_3 => {
                let max = limits::OUTCOME_REASON_BYTES_MAX;
                limited(behind, rule::OUTCOME_REASON, max, broken)?
            }
            key::BLOCK_4 => limited(behind, rule::METHOD, limits::METHOD_BYTES_MAX, broken)?,
            key::BLOCK_5 => {
                let (message, behind) = block(behind)?;
                (behind, user(message, broken)?)
            }
            key::BLOCK_6 => {
                let (message, behind) = block(behind)?;
                (behind, service(message, broken)?)
            }
            key::BLOCK_7 => {
                let (message, behind) = block(behind)?;
                (behind, network(message, broken)?)
            }
            key::BLOCK_15 => {
                let max = limits::RAW_RECORD_BYTES_MAX;
                limited(behind, rule::RAW_RECORD, max, broken)?
            }
            _ => (
                skip_unknown(rest, known(&[1, 2, 3, 4, 5, 6, 7, 15]))?,
                broken,
            ),
        };
    }
    Some(broken)
}

#[inline(always)]
fn user(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => limited(behind, rule::USER_NAME, limits::USER_NAME_BYTES_MAX, broken)?,
            key::BLOCK_2 => limited(
                behind,
                rule::USER_DOMAIN,
                limits::USER_DOMAIN_BYTES_MAX,
                broken,
            )?,
            key::BLOCK_3 => limited(behind, rule::USER_UID, limits::USER_UID_BYTES_MAX, broken)?,
            _ => (skip_unknown(rest, known(&[1, 2, 3]))?, broken),
        };
    }
    Some(broken)
}

#[inline(always)]
fn service(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => limited(
                behind,
                rule::SERVICE_NAME,
                limits::SERVICE_NAME_BYTES_MAX,
                broken,
            )?,
            key::BLOCK_2 => {
                let max = limits::SERVICE_PROTOCOL_BYTES_MAX;
                limited(behind, rule::SERVICE_PROTOCOL, max, broken)?
            }
            _ => (skip_unknown(rest, known(&[1, 2]))?, broken),
        };
    }
    Some(broken)
}

#[inline(never)]
fn network(message: &[u8], mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => {
                let (message, behind) = block(behind)?;
                let rules = (rule::SOURCE_IP, rule::SOURCE_PORT);
                (behind, endpoint(message, rules, broken)?)
            }
            key::BLOCK_2 => {
                let (message, behind) = block(behind)?;
                let rules = (rule::DESTINATION_IP, rule::DESTINATION_PORT);
                (behind, endpoint(message, rules, broken)?)
            }
            key::NUMBER_3 => (number(behind)?.1, broken),
            _ => (skip_unknown(rest, known(&[1, 2, 3]))?, broken),
        };
    }
    Some(broken)
}

#[inline(always)]
fn endpoint(message: &[u8], rules: (u32, u32), mut broken: u32) -> Option<u32> {
    let mut rest = message;
    while let Some((&key, behind)) = rest.split_first() {
        (rest, broken) = match key {
            key::BLOCK_1 => address(behind, rules.0, broken)?,
            key::NUMBER_2 => {
                let (port, behind) = number(behind)?;
                (behind, set(broken, rules.1, port as u32 > limits::PORT_MAX))
            }
            _ => (skip_unknown(rest, known(&[1, 2]))?, broken),
        };
    }
    Some(broken)
}
