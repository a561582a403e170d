//! Splitting slots over edges: the called first, then by traffic (design §3 *Tick*).

use crate::model::ids::NodeRun;

/// What an edge could use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Want {
    /// The edge.
    pub(super) run: NodeRun,
    /// Visitors who wait for a slot at this moment.
    pub(super) waiting: u32,
    /// Slots beyond those that newcomers may need before the next tick.
    pub(super) ahead: u32,
    /// Its traffic.
    pub(super) traffic: f64,
}

/// Splits `slots` over the edges: one each in turn to those with visitors waiting, from the `turn`th edge on; what is
/// left by traffic, largest remainder first. No edge gets more than it wants, all together get no more than `slots`.
pub(super) fn split(slots: u32, wants: &[Want], turn: usize) -> Vec<(NodeRun, u32)> {
    let mut shares: Vec<(Want, u32)> = wants.iter().map(|want| (*want, 0)).collect();
    let first = turn.checked_rem(shares.len()).unwrap_or_default();
    shares.rotate_left(first);
    let left = in_turn(slots, &mut shares);
    by_traffic(left, &mut shares);
    shares.into_iter().filter(|(_, share)| *share > 0).map(|(want, share)| (want.run, share)).collect()
}

/// Water filling: the same as one slot each in turn, without a step per slot.
fn in_turn(mut left: u32, shares: &mut [(Want, u32)]) -> u32 {
    loop {
        let short = shares.iter().filter(|(want, share)| *share < want.waiting).count();
        let Ok(short) = u32::try_from(short) else { return left };
        if short == 0 || left == 0 {
            return left;
        }
        let each = (left / short).max(1);
        for (want, share) in shares.iter_mut() {
            let more = want.waiting.saturating_sub(*share).min(each).min(left);
            *share += more;
            left -= more;
        }
    }
}

fn by_traffic(left: u32, shares: &mut [(Want, u32)]) {
    let traffic: f64 = shares.iter().filter(|(want, _)| want.ahead > 0).map(|(want, _)| want.traffic).sum();
    let quota = |want: &Want| {
        let part = if traffic > 0.0 { want.traffic / traffic } else { 1.0 };
        (f64::from(left) * part).min(f64::from(want.ahead))
    };
    let mut rest = left;
    let mut remainders: Vec<(f64, usize)> = Vec::with_capacity(shares.len());
    for (at, (want, share)) in shares.iter_mut().enumerate().filter(|(_, (want, _))| want.ahead > 0) {
        let exact = quota(want);
        let whole = (exact as u32).min(rest);
        *share += whole;
        rest -= whole;
        remainders.push((exact - f64::from(whole), at));
    }
    remainders.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, at) in remainders.into_iter().filter(|(remainder, _)| *remainder > 0.0) {
        if let Some((want, share)) = shares.get_mut(at)
            && rest > 0
            && *share < want.waiting + want.ahead
        {
            *share += 1;
            rest -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use proptest::prelude::*;

    use super::*;
    use crate::model::ids::{Generation, NodeId};

    fn run(number: usize) -> NodeRun {
        let node = NodeId(NonZeroU16::new(u16::try_from(number + 1).unwrap()).unwrap());
        NodeRun { node, generation: Generation(1) }
    }

    fn wants(of: &[(u32, u32, f64)]) -> Vec<Want> {
        let want = |(number, &(waiting, ahead, traffic))| Want { run: run(number), waiting, ahead, traffic };
        of.iter().enumerate().map(want).collect()
    }

    #[test]
    fn the_called_are_served_in_turn_before_anything_follows_traffic() {
        let wants = wants(&[(5, 100, 9.0), (1, 0, 0.0), (3, 100, 1.0)]);
        let shares = |slots| split(slots, &wants, 0).into_iter().map(|(_, share)| share).collect::<Vec<_>>();
        assert_eq!(shares(3), [1, 1, 1]);
        assert_eq!(shares(9), [5, 1, 3]);
        assert_eq!(shares(19), [14, 1, 4]);
    }

    #[test]
    fn the_turn_goes_round() {
        let wants = wants(&[(1, 0, 0.0), (1, 0, 0.0), (1, 0, 0.0)]);
        let first = |turn| split(1, &wants, turn).first().map(|(run, _)| *run);
        assert_eq!(
            (first(0), first(1), first(2), first(3)),
            (Some(run(0)), Some(run(1)), Some(run(2)), Some(run(0)))
        );
    }

    proptest! {
        #[test]
        fn shares_are_within_slots_and_wants_and_leave_nobody_waiting_beside_a_slot(
            slots in 0_u32..500, turn in 0_usize..9,
            of in prop::collection::vec((0_u32..100, 0_u32..100, 0.0..10.0), 0..12)
        ) {
            let wants = wants(&of);
            let shares = split(slots, &wants, turn);
            let total: u32 = shares.iter().map(|(_, share)| share).sum();
            prop_assert!(total <= slots);
            let waiting: u32 = wants.iter().map(|want| want.waiting).sum();
            prop_assert!(total >= slots.min(waiting));
            for (run, share) in shares {
                let want = wants.iter().find(|want| want.run == run).unwrap();
                prop_assert!(share <= want.waiting + want.ahead);
            }
        }
    }
}
