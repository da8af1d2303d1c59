//! The events: a game's, of some twenty properties, over identities that are met in turn, or
//! some of them more than others.

use std::fmt::Write as _;

/// What the events are like.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Random, in every id.
    pub run: u32,
    /// Events in all.
    pub events: u64,
    /// Devices, each with an account.
    pub identities: u32,
    /// Properties of an event beside its device.
    pub properties: u32,
    /// Which identity an event is of.
    choice: Choice,
}

#[derive(Clone, Debug)]
enum Choice {
    InTurn,
    /// Upper bounds of the identities' shares, of 2^64.
    Shares(Vec<u64>),
}

/// How identities share the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Skew {
    /// Exponent of Zipf's law: the share of the identity of rank r is as 1 / r^zipf.
    pub zipf: Option<f64>,
    /// The first identity's share of all events; the others share the rest evenly.
    pub hot: Option<f64>,
}

impl Workload {
    /// Events numbered from 0.
    pub fn new(run: u32, events: u64, identities: u32, properties: u32, skew: Skew) -> Workload {
        let weight = |rank: u32| match skew {
            Skew { hot: Some(hot), .. } if rank == 0 => hot,
            Skew { hot: Some(hot), .. } => (1.0 - hot) / f64::from(identities - 1).max(1.0),
            Skew {
                zipf: Some(exponent),
                ..
            } => f64::from(rank + 1).powf(-exponent),
            Skew { .. } => 1.0,
        };
        let choice = if skew == Skew::default() {
            Choice::InTurn
        } else {
            let sum: f64 = (0..identities).map(weight).sum();
            let mut below = 0.0;
            let bound = |rank| {
                below += weight(rank) / sum;
                // The last bound is beyond every number.
                if rank + 1 == identities {
                    u64::MAX
                } else {
                    (below * u64::MAX as f64) as u64
                }
            };
            Choice::Shares((0..identities).map(bound).collect())
        };
        Workload {
            run,
            events,
            identities,
            properties,
            choice,
        }
    }

    /// The identity of an event.
    pub fn identity(&self, number: u64) -> u32 {
        match &self.choice {
            Choice::InTurn => (number % u64::from(self.identities)) as u32,
            Choice::Shares(bounds) => {
                let random = spread(number);
                let rank = bounds.partition_point(|bound| *bound < random);
                rank.min(bounds.len() - 1) as u32
            }
        }
    }

    /// The device and the account of an identity.
    pub fn names(identity: u32) -> (String, String) {
        (
            format!("device-{identity:05}"),
            format!("account-{identity:06}"),
        )
    }

    /// Appends the item of an event, as an SDK sends it, with an id.
    pub fn push_item(&self, number: u64, out: &mut String) {
        let identity = self.identity(number);
        let random = spread(number ^ 0x5EED);
        let (run, level) = (self.run, random % 60);
        let _ = write!(
            out,
            "{{\"type\":\"track\",\"id\":\"bench-{run:08x}-{number:08x}\",\"payload\":{{\
             \"name\":\"quest_completed\",\"profileId\":\"account-{identity:06}\",\"properties\":{{\
             \"__deviceId\":\"device-{identity:05}\",\"account_id\":\"account-{identity:06}\",\
             \"role_id\":\"role-{:08}\",\"server_id\":{},\"sequence\":{number},\"level\":{level}",
            random % 100_000_000,
            random % 40,
        );
        for property in 5..u64::from(self.properties) {
            self.push_property(property, random, out);
        }
        out.push_str("}}}");
    }

    /// Texts, numbers, a flag, an array: as the names say.
    fn push_property(&self, property: u64, random: u64, out: &mut String) {
        let value = random.rotate_left(property as u32 * 7) & 0xFFFF;
        let _ = match property {
            5 => write!(
                out,
                ",\"channel\":\"{}\"",
                ["steam", "apple", "google"][value as usize % 3]
            ),
            6 => write!(
                out,
                ",\"currency\":\"{}\"",
                ["EUR", "USD", "JPY"][value as usize % 3]
            ),
            7 => write!(
                out,
                ",\"items\":[{},{},{}]",
                value % 90,
                value % 91,
                value % 92
            ),
            8 => write!(out, ",\"amount\":{}.{:02}", value / 100, value % 100),
            9 => write!(out, ",\"first_time\":{}", value.is_multiple_of(2)),
            _ if property.is_multiple_of(2) => write!(out, ",\"stat_{property}\":{value}"),
            _ => write!(out, ",\"label_{property}\":\"value-{value:05}\""),
        };
    }

    /// The events of a request: `batch` of them, fewer in the last.
    pub fn numbers(&self, request: u64, batch: u32) -> std::ops::Range<u64> {
        let first = request * u64::from(batch);
        first..(first + u64::from(batch)).min(self.events)
    }

    /// The body of a request.
    pub fn body(&self, request: u64, batch: u32, out: &mut String) {
        out.clear();
        if batch == 1 {
            self.push_item(request, out);
            return;
        }
        out.push_str("{\"type\":\"batch\",\"payload\":[");
        for number in self.numbers(request, batch) {
            if !out.ends_with('[') {
                out.push(',');
            }
            self.push_item(number, out);
        }
        out.push_str("]}");
    }

    /// The event that an id names, if it is of this run.
    pub fn number(&self, id: &str) -> Option<u64> {
        let (run, number) = id.strip_prefix("bench-")?.split_once('-')?;
        let is_ours = u32::from_str_radix(run, 16) == Ok(self.run);
        let number = u64::from_str_radix(number, 16).ok()?;
        (is_ours && number < self.events).then_some(number)
    }

    /// How many events each identity has.
    pub fn events_of_identities(&self) -> Vec<u64> {
        let mut events = vec![0; self.identities as usize];
        for number in 0..self.events {
            events[self.identity(number) as usize] += 1;
        }
        events
    }
}

/// SplitMix64 of a number: spread evenly, the same in every run.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_json_with_so_many_properties_and_its_id_names_it() {
        let workload = Workload::new(7, 100, 10, 20, Skew::default());
        let mut body = String::new();
        workload.body(42, 1, &mut body);
        let item: serde_json::Value = serde_json::from_str(&body).unwrap();
        let properties = item["payload"]["properties"].as_object().unwrap();
        assert_eq!(properties.len(), 21, "with the device: {body}");
        assert_eq!(properties["sequence"], 42);
        assert_eq!(item["payload"]["profileId"], "account-000002");
        assert_eq!(workload.number(item["id"].as_str().unwrap()), Some(42));
        for foreign in [
            "bench-00000008-0000002a",
            "bench-00000007-00000064",
            "x",
            "",
        ] {
            assert_eq!(workload.number(foreign), None, "{foreign}");
        }
        workload.body(14, 7, &mut body);
        let batch: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            batch["payload"].as_array().unwrap().len(),
            2,
            "98 and 99 are the last"
        );
    }

    #[test]
    fn identities_share_as_asked() {
        let share = |skew, identity: usize| {
            let workload = Workload::new(0, 100_000, 1_000, 20, skew);
            let events = workload.events_of_identities();
            assert_eq!(events.iter().sum::<u64>(), 100_000);
            events[identity] as f64 / 100_000.0
        };
        assert_eq!(share(Skew::default(), 999), 0.001);
        let hot = Skew {
            hot: Some(0.2),
            zipf: None,
        };
        assert!((share(hot, 0) - 0.2).abs() < 0.005 && (share(hot, 500) - 0.0008).abs() < 0.0004);
        // By Zipf's law the first of a thousand has 1 / (1 + 1/2 + ... + 1/1000) = 0.1336.
        let zipf = Skew {
            zipf: Some(1.0),
            hot: None,
        };
        assert!((share(zipf, 0) - 0.1336).abs() < 0.005 && (share(zipf, 1) - 0.0668).abs() < 0.005);
    }
}
