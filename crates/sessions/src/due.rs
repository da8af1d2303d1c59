//! When sessions are looked at again: by seconds, so that a touch moves nothing.
//!
//! A session stands in one place, that of the time it was due when it was put there. Whoever
//! takes it out and finds that it is due later puts it back at that time: once a time-out at
//! most, however often it is touched.

use std::collections::{BTreeMap, BinaryHeap};

use std::cmp::Reverse;

const SECOND_MS: i64 = 1_000;

/// A session's place in memory, and which of the sessions that had this place is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub place: u32,
    pub life: u32,
}

/// Tickets by due time.
#[derive(Default)]
pub(crate) struct DueQueue {
    /// By the second in which they are due.
    seconds: BTreeMap<i64, Vec<Ticket>>,
    /// Those of seconds that have begun, by their exact times.
    begun: BinaryHeap<Reverse<(i64, Ticket)>>,
    /// The last second that was moved to `begun`.
    begun_to: i64,
}

impl DueQueue {
    pub fn new() -> Self {
        Self {
            begun_to: i64::MIN,
            ..Self::default()
        }
    }

    /// Puts a ticket at a time.
    pub fn put(&mut self, due_ms: i64, ticket: Ticket) {
        let second = due_ms.div_euclid(SECOND_MS);
        if second <= self.begun_to {
            self.begun.push(Reverse((due_ms, ticket)));
        } else {
            self.seconds.entry(second).or_default().push(ticket);
        }
    }

    /// Takes out a ticket whose time, as `due_ms` tells, is before `now_ms`. Tickets that are due
    /// later by now are put back; those of which it tells none are dropped.
    pub fn next(
        &mut self,
        now_ms: i64,
        mut due_ms: impl FnMut(Ticket) -> Option<i64>,
    ) -> Option<Ticket> {
        let now_second = now_ms.div_euclid(SECOND_MS);
        while let Some(entry) = self
            .seconds
            .first_entry()
            .filter(|e| *e.key() <= now_second)
        {
            self.begun_to = *entry.key();
            for ticket in entry.remove() {
                if let Some(due_ms) = due_ms(ticket) {
                    self.put(due_ms, ticket);
                }
            }
        }
        self.begun_to = self.begun_to.max(now_second);
        while let Some(&Reverse((known_ms, ticket))) = self.begun.peek() {
            if known_ms >= now_ms {
                return None;
            }
            self.begun.pop();
            match due_ms(ticket) {
                Some(exact_ms) if exact_ms < now_ms => return Some(ticket),
                Some(later_ms) => self.put(later_ms, ticket),
                None => {}
            }
        }
        None
    }

    /// Puts tickets that are due later than where they stand to their times, until the first one
    /// is where it belongs: then [`DueQueue::earliest_ms`] is no alarm for nothing.
    pub fn settle(&mut self, mut due_ms: impl FnMut(Ticket) -> Option<i64>) {
        while let Some(&Reverse((known_ms, ticket))) = self.begun.peek() {
            let exact_ms = due_ms(ticket);
            if exact_ms.is_some_and(|exact_ms| exact_ms <= known_ms) {
                return;
            }
            self.begun.pop();
            if let Some(exact_ms) = exact_ms {
                self.put(exact_ms, ticket);
            }
        }
        while let Some(entry) = self.seconds.first_entry() {
            let end_ms = (*entry.key() + 1).saturating_mul(SECOND_MS);
            let stays = |ticket: &Ticket| due_ms(*ticket).is_some_and(|exact| exact < end_ms);
            if entry.get().iter().any(stays) {
                return;
            }
            for ticket in entry.remove() {
                if let Some(exact_ms) = due_ms(ticket) {
                    self.put(exact_ms, ticket);
                }
            }
        }
    }

    /// No ticket is due before this time; none while there is no ticket.
    pub fn earliest_ms(&self) -> Option<i64> {
        let begun = self.begun.peek().map(|Reverse((due_ms, _))| *due_ms);
        let second = self.seconds.first_key_value();
        let later = second.map(|(second, _)| second.saturating_mul(SECOND_MS));
        begun.into_iter().chain(later).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(place: u32) -> Ticket {
        Ticket { place, life: 0 }
    }

    #[test]
    fn tickets_come_out_when_their_time_has_passed_and_in_its_order() {
        let mut queue = DueQueue::new();
        let due = [5_400, 5_100, 90_000, 5_100];
        for (place, due_ms) in due.iter().enumerate() {
            queue.put(*due_ms, ticket(place as u32));
        }
        let tell = |ticket: Ticket| Some(due[ticket.place as usize]);
        assert_eq!(queue.earliest_ms(), Some(5_000));
        assert_eq!(
            queue.next(5_100, tell),
            None,
            "due at 5,100 is not yet over"
        );
        assert_eq!(queue.earliest_ms(), Some(5_100));
        assert_eq!(queue.next(5_101, tell), Some(ticket(1)));
        assert_eq!(queue.next(5_101, tell), Some(ticket(3)));
        assert_eq!(queue.next(5_101, tell), None);
        assert_eq!(queue.next(89_999, tell), Some(ticket(0)));
        assert_eq!(queue.next(90_000, tell), None);
        assert_eq!(queue.next(90_001, tell), Some(ticket(2)));
        assert_eq!(queue.earliest_ms(), None);
    }

    #[test]
    fn settled_the_earliest_time_is_that_of_a_ticket() {
        let mut queue = DueQueue::new();
        for place in 0..3 {
            queue.put(1_000 + i64::from(place) * 1_000, ticket(place));
        }
        // The first is gone, the second was touched, the third is where it was.
        let tell = |ticket: Ticket| [None, Some(60_500), Some(3_000)][ticket.place as usize];
        queue.settle(tell);
        assert_eq!(queue.earliest_ms(), Some(3_000));
        assert_eq!(queue.next(3_001, tell), Some(ticket(2)));
        queue.settle(tell);
        assert_eq!(queue.earliest_ms(), Some(60_000), "to the second");
    }

    #[test]
    fn a_ticket_that_was_touched_is_put_back_and_one_that_is_gone_is_dropped() {
        let mut queue = DueQueue::new();
        queue.put(1_000, ticket(0));
        queue.put(1_000, ticket(1));
        let tell = |ticket: Ticket| (ticket.place == 0).then_some(7_500);
        assert_eq!(queue.next(7_000, tell), None);
        assert_eq!(
            queue.earliest_ms(),
            Some(7_500),
            "its exact time, in a second that has begun"
        );
        assert_eq!(queue.next(7_501, tell), Some(ticket(0)));
        assert_eq!(queue.earliest_ms(), None);
    }
}
