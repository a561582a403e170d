//! Slots and passes: what is minted, used, renewed, ended, given back.

use super::*;

#[test]
fn no_more_is_reserved_than_capacity_and_credit_allow() {
    let mut ledger = Ledger::small();
    assert_eq!(ledger.reserve(25).map(|reserved| reserved.slots), Some(10));
    assert_eq!(ledger.reserve(1), None);
    ledger.wait(10_000);
    assert_eq!(ledger.reserve(1), None, "what is promised is not free");
    let mut ledger = Ledger::new(serde_json::json!({ "capacity": 100, "max_admit_per_sec": 8 }));
    assert_eq!(ledger.reserve(25).map(|reserved| reserved.slots), Some(2), "a quarter second's credit");
}

#[test]
fn a_settled_number_is_settled_once() {
    let mut ledger = Ledger::small();
    let block = ledger.block(4);
    assert_eq!(ledger.mint(block, 1, id(1)).live.len(), 1);
    assert_eq!(ledger.mint(block, 1, id(1)).live, []);
    assert_eq!(ledger.mint(block, 1, id(2)).live, [], "the number is taken");
    assert_eq!((ledger.occupied(), ledger.live().len()), (4, 1));
}

#[test]
fn closing_gives_back_exactly_what_is_unspent() {
    let mut ledger = Ledger::small();
    let block = ledger.block(8);
    let mints = [ledger.minted(1, id(1)), ledger.minted(3, id(3))];
    let closing = settle(block, &mints, Some(5));
    ledger.tick(|tick| tick.settle.push(closing.clone()));
    assert_eq!(ledger.occupied(), 5, "two live, three of the block with somebody else");
    ledger.tick(|tick| tick.settle.push(closing));
    assert_eq!(ledger.occupied(), 5);
    ledger.tick(|tick| tick.returned.push(Returned { block, slots: 3 }));
    assert_eq!(ledger.occupied(), 2);
    assert_eq!(ledger.mint(block, 2, id(2)).live, [], "its slot has been given back");
}

#[test]
fn a_heavier_pass_takes_its_weight_in_slots() {
    let mut ledger = Ledger::small();
    let block = ledger.block(8);
    let heavy = Mint { weight: Weight::try_from(3).unwrap(), ..ledger.minted(1, id(1)) };
    let closing = settle(block, &[heavy], Some(8));
    ledger.tick(|tick| tick.settle.push(closing));
    assert_eq!(ledger.occupied(), 3);
    ledger.tick(|tick| tick.revoke.push(ended(id(1))));
    ledger.acknowledged_tick(ledger.state.index, |_| {});
    assert_eq!(ledger.occupied(), 0);
}

#[test]
fn a_ticket_replayed_anywhere_takes_one_slot() {
    let mut ledger = Ledger::small();
    let block = ledger.block(6);
    for node in [1, 2] {
        let settle = Settle {
            block,
            run: run(node, 1),
            mints: vec![ledger.minted(1, id(9)), ledger.minted(2, id(9))],
            closed: Some(3),
        };
        ledger.tick(|tick| tick.settle.push(settle));
    }
    assert_eq!((ledger.occupied(), ledger.live().len()), (1, 1));
}

#[test]
fn a_first_use_starts_the_session_and_renewals_stop_at_its_ceiling() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    let expires = FleetTime(START + 20_000);
    ledger.wait(5_000);
    ledger.extend(first_use(block, 1, id(1), expires));
    let pass = *ledger.live().pass(id(1)).unwrap();
    assert_eq!(pass.expires, FleetTime(START + 65_000));
    assert_eq!(
        pass.claim,
        Some(Claim { started: FleetTime(START + 5_000), index: ledger.state.index }),
        "the token carries the index of the acknowledgement"
    );
    ledger.wait(55_000);
    ledger.extend(first_use(block, 1, id(1), expires));
    assert_eq!(ledger.live().pass(id(1)).unwrap().expires, FleetTime(START + 105_000));
}

#[test]
fn a_first_use_may_arrive_before_its_mint() {
    let mut ledger = Ledger::small();
    let block = ledger.block(2);
    let expires = FleetTime(START + 20_000);
    ledger.extend(first_use(block, 1, id(1), expires));
    assert!(ledger.live().pass(id(1)).unwrap().claim.is_some());
    assert_eq!(ledger.occupied(), 2);
    assert_eq!(ledger.mint(block, 1, id(1)).live, [], "the mint says nothing new");
    assert_eq!(ledger.occupied(), 2);
}

#[test]
fn a_use_is_refused_and_changes_nothing_where_the_pass_cannot_be_live() {
    let mut ledger = Ledger::small();
    let block = ledger.block(4);
    let expires = FleetTime(START + 20_000);
    ledger.mint(block, 1, id(1));
    let of_another = first_use(block, 1, id(2), expires);
    let of_no_block = first_use(BlockId(99), 1, id(3), expires);
    ledger.tick(|tick| tick.revoke.push(ended(id(4))));
    let revoked = first_use(block, 4, id(4), expires);
    for refused in [of_another, of_no_block, revoked] {
        assert_eq!(ledger.extend(refused).live, [], "{refused:?}");
    }
    ledger.tick(|tick| tick.settle.push(settle(block, &[], Some(4))));
    assert_eq!(ledger.extend(first_use(block, 2, id(5), expires)).live, [], "its share is closed");
    ledger.wait(20_000);
    let late = ledger.extend(first_use(block, 1, id(1), expires));
    assert!(matches!(late.live.as_slice(), [(_, LiveChange::Unclaimed(..))]), "{late:?}");
    assert_eq!(ledger.extend(first_use(block, 1, id(1), expires)).live, [], "it is over");
}

#[test]
fn a_pass_that_ends_unclaimed_twice_is_consumed() {
    let mut ledger = Ledger::small();
    for turn in [1, 2] {
        let block = ledger.block(1);
        ledger.mint(block, 1, id(1));
        assert!(ledger.live().pass(id(1)).is_some());
        ledger.wait(20_000);
        ledger.tick(|_| {});
        assert!(ledger.live().pass(id(1)).is_none());
        assert_eq!(ledger.live().is_consumed(id(1)), turn == 2);
        ledger.wait(2_000);
        ledger.tick(|_| {});
        assert_eq!(ledger.occupied(), 0);
    }
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    assert!(ledger.live().pass(id(1)).is_none(), "a consumed id is never live again");
}

#[test]
fn a_used_session_is_consumed_when_it_ends() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    ledger.extend(first_use(block, 1, id(1), FleetTime(START + 20_000)));
    ledger.wait(59_999);
    ledger.tick(|_| {});
    assert!(ledger.live().pass(id(1)).is_some());
    ledger.wait(1);
    ledger.tick(|_| {});
    assert!(ledger.live().is_consumed(id(1)));
}

#[test]
fn an_ended_slot_is_free_when_every_edge_has_heard_or_nobody_can_honour_it() {
    for heard in [true, false] {
        let mut ledger = Ledger::small();
        let block = ledger.block(1);
        ledger.mint(block, 1, id(1));
        ledger.tick(|tick| tick.revoke.push(ended(id(1))));
        let ended = ledger.state.index;
        ledger.wait(19_000);
        ledger.acknowledged_tick(LogIndex(ended.0 - 1), |_| {});
        assert_eq!(ledger.occupied(), 1);
        if heard {
            ledger.acknowledged_tick(ended, |_| {});
            assert_eq!(ledger.occupied(), 0);
        } else {
            ledger.wait(2_999);
            ledger.tick(|_| {});
            assert_eq!(ledger.occupied(), 1);
            ledger.wait(1);
            ledger.tick(|_| {});
            assert_eq!(ledger.occupied(), 0);
        }
    }
}

#[test]
fn slots_wait_as_much_longer_as_fleet_time_has_stepped_until_every_edge_has_heard() {
    let mut ledger = Ledger::small();
    let block = ledger.block(2);
    ledger.mint(block, 1, id(1));
    ledger.mint(block, 2, id(2));
    // The clock of the next leader says that both passes are over; an edge that is cut off goes by another.
    ledger.wait(50_000);
    ledger.apply(&Command::Lead { now: ledger.now, absence: None });
    ledger.tick(|_| {});
    assert_eq!((ledger.live().len(), ledger.pool().held_back()), (0, 2));
    ledger.wait(20_000 + 1_900);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 2);
    let stepped = ledger.state.index;
    ledger.wait(100);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 0);

    let block = ledger.block(1);
    ledger.mint(block, 1, id(3));
    ledger.wait(20_000);
    ledger.acknowledged_tick(stepped, |_| {});
    assert_eq!(ledger.pool().held_back(), 1);
    ledger.wait(2_000);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 0, "every edge goes by the leader's clock again");
}

#[test]
fn a_block_counts_until_no_pass_of_it_can_be_honoured() {
    let mut ledger = Ledger::small();
    let Reserved { block, exp_max, .. } = ledger.reserve(3).unwrap();
    assert_eq!(exp_max, FleetTime(START + 20_000 + 1_500));
    ledger.now = FleetTime(exp_max.0 + 1_999);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 3);
    ledger.wait(1);
    ledger.tick(|_| {});
    assert_eq!((ledger.occupied(), ledger.pool().block(block)), (0, None));
}

/// A revoked id that was forgotten with its slot would be honoured by whoever starts with the set as it is then.
#[test]
fn a_revocation_is_kept_after_its_slot_is_free() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    ledger.mint(block, 1, id(1));
    ledger.extend(first_use(block, 1, id(1), FleetTime(START + 20_000)));
    ledger.tick(|tick| tick.revoke.push(ended(id(1))));
    ledger.acknowledged_tick(ledger.state.index, |_| {});
    assert_eq!(ledger.occupied(), 0);
    for _ in 0..24 * 60 {
        ledger.wait(60_000);
        ledger.tick(|_| {});
    }
    assert!(ledger.live().is_consumed(id(1)), "its ticket may be shown for a day");
    for _ in 0..6 {
        ledger.wait(60_000);
        ledger.tick(|_| {});
    }
    assert!(!ledger.live().is_consumed(id(1)), "and not for ever");
}

/// The mint of a revoked pass that is reported late is neither counted twice nor brought back to life.
#[test]
fn a_pass_revoked_before_its_mint_is_known_holds_one_slot_and_is_never_live() {
    let mut ledger = Ledger::small();
    let block = ledger.block(1);
    let settle = settle(block, &[ledger.minted(1, id(1))], Some(1));
    ledger.tick(|tick| tick.revoke.push(ended(id(1))));
    assert_eq!(ledger.occupied(), 1, "in its block");
    ledger.tick(|tick| tick.settle.push(settle));
    assert_eq!((ledger.occupied(), ledger.live().len()), (1, 0));
    ledger.acknowledged_tick(ledger.state.index, |_| {});
    assert_eq!(ledger.occupied(), 0);
}

/// A deposed leader may hand out a block late: the ledger lets go of a slot only after the pass's bounded life.
#[test]
fn a_mint_cannot_outlive_its_block() {
    let mut ledger = Ledger::small();
    let Reserved { block, exp_max, .. } = ledger.reserve(1).unwrap();
    let late = Mint { expires: FleetTime(u64::MAX), ..ledger.minted(1, id(1)) };
    ledger.tick(|tick| tick.settle.push(settle(block, &[late], Some(1))));
    assert_eq!(ledger.live().pass(id(1)).unwrap().expires, exp_max);
}

/// An edge that minted a replayed ticket honours its own pass to the end, even when it is cut off.
#[test]
fn the_slot_of_a_replayed_ticket_is_held_as_long_as_the_longest_of_its_passes() {
    let mut ledger = Ledger::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40,
        "pass_claim_s": 60, "session_ttl_s": 10 }));
    let block = ledger.block(2);
    let short = Mint { expires: FleetTime(START + 8_000), ..ledger.minted(1, id(1)) };
    ledger.tick(|tick| tick.settle.push(settle(block, &[short], None)));
    ledger.extend(first_use(block, 1, id(1), short.expires));
    let again = Mint { number: 2, expires: FleetTime(START + 50_000), ..short };
    ledger.tick(|tick| tick.settle.push(settle(block, &[again], None)));
    ledger.wait(40_000);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 1);
}

#[test]
fn a_use_that_settles_a_replayed_ticket_holds_its_slot_as_long() {
    let mut ledger = Ledger::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40,
        "pass_claim_s": 60, "session_ttl_s": 10 }));
    let block = ledger.block(2);
    ledger.extend(first_use(block, 1, id(1), FleetTime(START + 8_000)));
    ledger.extend(first_use(block, 2, id(1), FleetTime(START + 50_000)));
    ledger.wait(40_000);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 1);
}

#[test]
fn lowering_capacity_evicts_nobody_and_admits_nobody_until_there_is_room() {
    let mut ledger = Ledger::small();
    let block = ledger.block(6);
    let mints: Vec<_> = (1..=6).map(|n| ledger.minted(n, id(n.into()))).collect();
    ledger.tick(|tick| tick.settle.push(settle(block, &mints, Some(6))));
    ledger.change(ChangeKind::Patch(fields(serde_json::json!({ "capacity": 5 })))).unwrap();
    ledger.wait(5_000);
    assert_eq!(ledger.reserve(4), None);
    assert_eq!(ledger.live().len(), 6);
    ledger.tick(|tick| tick.revoke.extend([id(1), id(2)].map(ended)));
    let heard = ledger.state.index;
    let freed = ledger.acknowledged_tick(heard, |tick| tick.reserve = 4);
    assert_eq!(reserved(&freed).map(|reserved| reserved.slots), Some(1));
}

#[test]
fn an_identity_is_consumed_like_any_other_id() {
    let mut ledger = Ledger::small();
    let identity = TicketId { node: 0, generation: 9, sequence: 1 << 47 };
    let block = ledger.block(1);
    ledger.mint(block, 1, identity);
    ledger.tick(|tick| tick.revoke.push(ended(identity)));
    assert!(ledger.live().is_consumed(identity) && ledger.live().pass(identity).is_none());
}

#[test]
fn who_left_is_consumed_and_the_set_says_why() {
    let mut ledger = Ledger::small();
    let block = ledger.block(2);
    ledger.mint(block, 1, id(1));
    let left = [id(1), id(2)].map(|id| Revoke { id, why: RevokeReason::Left });
    ledger.tick(|tick| tick.revoke.extend(left));
    ledger.tick(|tick| tick.revoke.push(ended(id(3))));
    assert!([1, 2, 3].iter().all(|n| ledger.live().is_consumed(id(*n))));
    assert_eq!([1, 2, 3].map(|n| ledger.live().has_left(id(n))), [true, true, false]);
    let again = ledger.tick(|tick| tick.revoke.push(Revoke { id: id(3), why: RevokeReason::Left }));
    assert!(again.live.is_empty() && !ledger.live().has_left(id(3)), "it was over before");
}

#[test]
fn what_was_not_presented_in_time_ends_unless_it_is_in_use_by_now() {
    let mut ledger = Ledger::small();
    let block = ledger.block(2);
    (1..=2).for_each(|n| drop(ledger.mint(block, n, id(n.into()))));
    ledger.extend(first_use(block, 2, id(2), ledger.minted(2, id(2)).expires));
    let late = [1, 2, 3].map(|n| Revoke { id: id(n), why: RevokeReason::Unpresented });
    ledger.tick(|tick| tick.revoke.extend(late));
    assert!(ledger.live().is_consumed(id(1)));
    assert!(ledger.live().pass(id(2)).is_some() && !ledger.live().is_consumed(id(3)));
}

/// A session shorter than the time to begin it: who has heard of it goes by it, and for who has not the slot is held.
#[test]
fn the_slot_of_a_short_session_is_free_once_every_edge_has_heard_of_its_end() {
    for heard in [true, false] {
        let mut ledger = Ledger::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40,
            "pass_claim_s": 60, "session_ttl_s": 10 }));
        let block = ledger.block(1);
        let unused = Mint { expires: FleetTime(START + 60_000), ..ledger.minted(1, id(1)) };
        ledger.tick(|tick| tick.settle.push(settle(block, &[unused], Some(1))));
        ledger.wait(1_000);
        ledger.extend(first_use(block, 1, id(1), unused.expires));
        assert_eq!(ledger.live().pass(id(1)).unwrap().expires, FleetTime(START + 11_000));
        // Renewed, as any edge may ask.
        ledger.wait(5_000);
        ledger.extend(first_use(block, 1, id(1), unused.expires));
        assert_eq!(ledger.live().pass(id(1)).unwrap().expires, FleetTime(START + 16_000));
        ledger.wait(10_000);
        ledger.tick(|_| {});
        assert!(ledger.live().is_consumed(id(1)));
        assert_eq!(ledger.occupied(), 1, "an edge may not have heard of the first use");
        if heard {
            ledger.acknowledged_tick(ledger.state.index, |_| {});
        } else {
            ledger.now = FleetTime(START + 61_999);
            ledger.tick(|_| {});
            assert_eq!(ledger.occupied(), 1);
            ledger.wait(1);
            ledger.tick(|_| {});
        }
        assert_eq!(ledger.occupied(), 0);
    }
}

#[test]
fn who_leaves_a_short_session_gives_the_slot_back_once_every_edge_has_heard() {
    let mut ledger = Ledger::new(serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40,
        "pass_claim_s": 60, "session_ttl_s": 10 }));
    let block = ledger.block(1);
    let unused = Mint { expires: FleetTime(START + 60_000), ..ledger.minted(1, id(1)) };
    ledger.tick(|tick| tick.settle.push(settle(block, &[unused], Some(1))));
    ledger.extend(first_use(block, 1, id(1), unused.expires));
    ledger.tick(|tick| tick.revoke.push(Revoke { id: id(1), why: RevokeReason::Left }));
    ledger.wait(20_000);
    ledger.tick(|_| {});
    assert_eq!(ledger.occupied(), 1, "as long as the unused pass may be honoured somewhere");
    ledger.acknowledged_tick(ledger.state.index, |_| {});
    assert_eq!(ledger.occupied(), 0);
}

#[test]
fn a_pass_of_a_block_that_is_not_in_the_log_finds_no_block_in_its_place() {
    let mut ledger = Ledger::small();
    let known = ledger.block(2);
    let unknown = BlockId(known.0 + 1);
    ledger.state.skip_blocks(1);
    ledger.change(ChangeKind::Delete).unwrap();
    ledger.state.skip_blocks(1);
    let policy = serde_json::json!({ "capacity": 10, "max_admit_per_sec": 40 });
    ledger.change(ChangeKind::Put(fields(policy))).unwrap();
    ledger.wait(1000);
    assert_eq!(ledger.block(2), BlockId(unknown.0 + 2));
    assert_eq!(ledger.mint(unknown, 1, id(1)).live, []);
}
