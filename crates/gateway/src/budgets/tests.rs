use super::*;

const TEN_A_SECOND: Rate = Rate {
    per_second: 10,
    burst: 20,
};

fn limits(tracked_max: usize) -> BudgetLimits {
    BudgetLimits {
        requests: TEN_A_SECOND,
        events: Rate {
            per_second: 100,
            burst: 200,
        },
        bytes: Rate {
            per_second: 1_000,
            burst: 2_000,
        },
        tracked_max,
    }
}

fn budgets(limits: BudgetLimits) -> Budgets {
    Budgets::new("agents", limits, Arc::new(Metrics::new()))
}

/// How many requests pass at one instant.
fn passing(budgets: &Budgets, owner: &str, now_ns: u64) -> usize {
    let mut passed = 0;
    while budgets.spend_request(owner, now_ns).is_ok() {
        passed += 1;
    }
    passed
}

#[test]
fn a_burst_then_the_rate() {
    let budgets = budgets(limits(10));
    let now = 5 * SECOND_NS;
    assert_eq!(passing(&budgets, "a", now), 20);
    assert_eq!(passing(&budgets, "a", now + SECOND_NS), 10);
    assert_eq!(passing(&budgets, "a", now + 2 * SECOND_NS), 10);
    // A long pause fills it to the burst, not beyond.
    assert_eq!(passing(&budgets, "a", now + 3_600 * SECOND_NS), 20);
}

#[test]
fn events_and_bytes_are_spent_together_or_not_at_all() {
    let budgets = budgets(limits(10));
    assert_eq!(budgets.spend_batch("a", 150, 1_500, 0), Ok(()));
    assert_eq!(budgets.spend_batch("a", 51, 1, 0), Err(OverBudget::Events));
    assert_eq!(budgets.spend_batch("a", 1, 501, 0), Err(OverBudget::Bytes));
    assert_eq!(
        budgets.spend_batch("a", 50, 500, 0),
        Ok(()),
        "the refused cost nothing"
    );
    assert_eq!(budgets.affords_bytes("a", 1, 0), Err(OverBudget::Bytes));
    assert_eq!(budgets.affords_bytes("a", 1, SECOND_NS), Ok(()));
}

#[test]
fn a_batch_above_the_burst_passes_a_full_budget_and_is_paid_off() {
    let budgets = budgets(limits(10));
    assert_eq!(budgets.spend_batch("a", 1_000, 1, 0), Ok(()));
    // 1,000 events at 100 a second: full again after ten seconds.
    assert_eq!(
        budgets.spend_batch("a", 1, 1, 7 * SECOND_NS),
        Err(OverBudget::Events)
    );
    assert_eq!(budgets.spend_batch("a", 200, 1, 10 * SECOND_NS), Ok(()));
}

#[test]
fn one_abusive_agent_beside_quiet_ones_refuses_none_of_theirs() {
    let budgets = budgets(limits(10));
    let mut refused = 0;
    for step in 0..1_000_u64 {
        let now = step * SECOND_NS / 100;
        if budgets.spend_request("abusive", now).is_err() {
            refused += 1;
        }
        if step % 10 == 0 {
            for quiet in ["b", "c", "d", "e"] {
                assert_eq!(
                    budgets.spend_request(quiet, now),
                    Ok(()),
                    "{quiet} at {step}"
                );
            }
        }
    }
    // 100 a second asked for ten seconds (the last at 9.99 s), 10 a second
    // allowed, and the burst of 20: 119 pass.
    assert_eq!(refused, 1_000 - 119);
}

#[test]
fn unlimited_tracks_nothing() {
    let budgets = budgets(BudgetLimits::UNLIMITED);
    assert_eq!(budgets.spend_request("a", 0), Ok(()));
    assert_eq!(budgets.spend_batch("a", u64::MAX, u64::MAX, 0), Ok(()));
    assert_eq!(budgets.tracked(), (0, 0));
}

#[test]
fn full_budgets_are_evicted_first_and_owe_nothing() {
    let budgets = budgets(limits(4));
    for owner in ["a", "b", "c", "d"] {
        assert_eq!(budgets.spend_request(owner, 0), Ok(()));
    }
    // A second later all four are full again; the fifth folds nobody.
    assert_eq!(budgets.spend_request("e", SECOND_NS), Ok(()));
    assert_eq!(budgets.tracked(), (4, 0));
}

#[test]
fn cycling_through_identities_never_refills_a_budget() {
    let budgets = budgets(limits(8));
    assert_eq!(passing(&budgets, "spent", 0), 20);
    // Far more identities than are tracked, all in debt, so that "spent" is
    // evicted many times over.
    for identity in 0..1_000 {
        let name = format!("agent-{identity}");
        let _ = budgets.spend_batch(&name, 200, 2_000, 0);
    }
    let (tracked, evicted) = budgets.tracked();
    assert_eq!(tracked, 8);
    assert!(evicted > 900);
    assert_eq!(passing(&budgets, "spent", 0), 0, "still spent");
    assert_eq!(
        passing(&budgets, "spent", SECOND_NS),
        10,
        "and refills at its rate"
    );
}

#[test]
fn what_is_folded_is_bounded() {
    let budgets = budgets(limits(2));
    for identity in 0..10_000 {
        let _ = budgets.spend_batch(&identity.to_string(), 200, 2_000, 0);
    }
    let state = budgets.state.lock().unwrap();
    assert_eq!((state.entries.len(), state.index.len()), (2, 2));
    assert_eq!(state.folded.len(), BUDGET_FOLDED_SLOTS);
}

#[test]
fn the_defaults_are_those_of_the_rule() {
    let agent = BudgetLimits::AGENT;
    assert_eq!(
        (agent.requests.per_second, agent.requests.burst),
        (200, 400)
    );
    assert_eq!(
        (agent.events.per_second, agent.events.burst),
        (50_000, 100_000)
    );
    assert_eq!(agent.bytes.per_second, 33_554_432);
    let key = BudgetLimits::KEY;
    assert_eq!(
        (key.requests.per_second, key.events.per_second),
        (50_000, 200_000)
    );
    assert_eq!(key.bytes.per_second, 134_217_728);
}
