use proptest::prelude::*;

use super::*;
use crate::model::ids::{BlockId, EventId, Generation, KeyId, LedgerEpoch, NodeRun};
use crate::model::ledger::KeyRecord;
use crate::model::order::{BucketStart, Fraction, OrderKey};

const EPOCH: LedgerEpoch = LedgerEpoch(77);

fn event(name: &str) -> EventId {
    name.parse().unwrap()
}

fn key(id: u32, signs_from: u64, verifies_until: Option<u64>) -> KeyRecord {
    KeyRecord {
        id: KeyId(id),
        secret: [u8::try_from(id).unwrap(); 32],
        made_at: FleetTime(0),
        signs_from: FleetTime(signs_from),
        verifies_until: verifies_until.map(FleetTime),
    }
}

fn ring() -> Keyring {
    Keyring::new(&[key(1, 0, None)], FleetTime(5)).unwrap()
}

fn node(number: u16) -> NodeId {
    NodeId(number.try_into().unwrap())
}

fn seat() -> Seat {
    Seat { id: TicketId { node: 1, generation: 2, sequence: 3 }, issued: 4 }
}

prop_compose! {
    fn any_id()(bytes: [u8; 12]) -> TicketId { TicketId::from_bytes(bytes) }
}

fn any_base() -> impl Strategy<Value = KeyBase> {
    prop_oneof![
        Just(KeyBase::Unkeyed),
        any::<(u32, u32)>().prop_map(|(b, f)| KeyBase::Drawn { bucket: BucketStart(b), floor: Fraction(f) }),
        any::<u64>().prop_map(|key| KeyBase::Arrival(OrderKey(key))),
        any::<u64>().prop_map(|key| KeyBase::Clock(OrderKey(key))),
    ]
}

prop_compose! {
    fn any_ticket()(
        id in any_id(), base in any_base(), by in 1u16.., line: u32, issued: u32, seen: u32, holder: u16,
        shown: (u32, u32), turn: (u32, u32, u32),
    ) -> Ticket {
        Ticket {
            line: LineEpoch(line), id, issued, base, last_seen: Window::from_number(seen), refreshed_by: node(by), holder,
            shown_upper: shown.0, first_position: shown.1, offered_at: turn.0, excused: turn.1, told_at: turn.2,
        }
    }
}

prop_compose! {
    fn any_pass()(
        id in any_id(), by in 1u16.., weight in 1u8..=100, generation: u32, block: u64, number: u32, index: u64,
        started: u32, expires: u64,
    ) -> Pass {
        let run = NodeRun { node: node(by), generation: Generation(generation) };
        Pass {
            id, at: Coordinates { block: BlockId(block), run, number }, weight: weight.try_into().unwrap(),
            index: LogIndex(index), started, expires: FleetTime(expires),
        }
    }
}

proptest! {
    #[test]
    fn what_is_signed_reads_back(
        ticket in any_ticket(), pass in any_pass(), name in "[a-z0-9][a-z0-9-]{0,62}", epoch: u32
    ) {
        let (ring, event, epoch) = (ring(), event(&name), LedgerEpoch(epoch));
        let text = ring.sign(&event, epoch, &ticket);
        prop_assert_eq!(ring.verify_ticket(&event, epoch, &text), Ok(ticket));
        prop_assert_eq!(ring.verify_any(&event, epoch, &text), Ok(Token::Ticket(ticket)));
        let text = ring.sign(&event, epoch, &pass);
        prop_assert_eq!(ring.verify_pass(&event, epoch, &text), Ok(pass));
        prop_assert_eq!(ring.verify_any(&event, epoch, &text), Ok(Token::Pass(pass)));
    }

    #[test]
    fn a_token_of_one_kind_reads_as_no_other(ticket in any_ticket(), pass in any_pass()) {
        let (ring, event) = (ring(), event("a"));
        let texts = [ring.sign(&event, EPOCH, &ticket), ring.sign(&event, EPOCH, &pass), ring.sign(&event, EPOCH, &seat())];
        for (at, text) in texts.iter().enumerate() {
            let wrong = Err(TokenError::WrongKind);
            prop_assert_eq!(ring.verify_ticket(&event, EPOCH, text).map(|_| ()), if at == 0 { Ok(()) } else { wrong });
            prop_assert_eq!(ring.verify_pass(&event, EPOCH, text).map(|_| ()), if at == 1 { Ok(()) } else { wrong });
            prop_assert_eq!(ring.verify_seat(&event, EPOCH, text).map(|_| ()), if at == 2 { Ok(()) } else { wrong });
        }
    }

    #[test]
    fn a_changed_byte_is_refused(pass in any_pass(), at: prop::sample::Index, byte in 0u8..0x80) {
        let (ring, event) = (ring(), event("a"));
        let mut bytes = ring.sign(&event, EPOCH, &pass).into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        prop_assert!(ring.verify_pass(&event, EPOCH, &text).is_err());
    }

    #[test]
    fn a_cut_or_longer_token_is_refused(pass in any_pass(), at: prop::sample::Index, more in "[A-Za-z0-9_.-]{1,9}") {
        let (ring, event) = (ring(), event("a"));
        let text = ring.sign(&event, EPOCH, &pass);
        prop_assert!(ring.verify_pass(&event, EPOCH, &text[..at.index(text.len())]).is_err());
        let (longer, shifted) = (format!("{text}{more}"), format!("{more}{text}"));
        prop_assert!(ring.verify_pass(&event, EPOCH, &longer).is_err());
        prop_assert!(ring.verify_pass(&event, EPOCH, &shifted).is_err());
    }

    #[test]
    fn any_text_is_read_or_refused(text: String, shape in "[A-Za-z0-9_-]{0,200}\\.[A-Za-z0-9_-]{43}") {
        let (ring, event) = (ring(), event("a"));
        prop_assert!(ring.verify_any(&event, EPOCH, &text).is_err());
        prop_assert!(ring.verify_any(&event, EPOCH, &shape).is_err());
    }

    #[test]
    fn any_bytes_as_a_payload_are_read_or_refused(bytes: Vec<u8>) {
        let _ = payload::Head::read(&mut payload::Reader::new(&bytes));
        let _ = Ticket::read(&mut payload::Reader::new(&bytes));
        let _ = Pass::read(&mut payload::Reader::new(&bytes));
        let _ = Seat::read(&mut payload::Reader::new(&bytes));
    }
}

#[test]
fn a_token_opens_its_own_event_and_epoch_only() {
    let ring = ring();
    let text = ring.sign(&event("a"), EPOCH, &seat());
    assert_eq!(ring.verify_seat(&event("b"), EPOCH, &text), Err(TokenError::WrongEvent));
    assert_eq!(ring.verify_seat(&event("a"), LedgerEpoch(78), &text), Err(TokenError::WrongEpoch));
    assert_eq!(ring.verify_seat(&event("a"), EPOCH, &text), Ok(seat()));
}

#[test]
fn base64_that_spells_the_same_bytes_otherwise_is_refused() {
    let (ring, event) = (ring(), event("abc"));
    let text = ring.sign(&event, EPOCH, &seat());
    // 32 bytes of MAC are 42 characters and 2 spare bits in the 43rd.
    let (rest, last) = text.split_at(text.len() - 1);
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let at = alphabet.find(last).unwrap();
    for spare in 1..4 {
        let other = &alphabet[at + spare..=at + spare];
        assert_eq!(ring.verify_seat(&event, EPOCH, &format!("{rest}{other}")), Err(TokenError::Malformed));
    }
    assert_eq!(ring.verify_seat(&event, EPOCH, &format!("{text}=")), Err(TokenError::Malformed));
}

#[test]
fn the_newest_key_that_may_sign_signs_and_every_valid_key_verifies() {
    let keys = [key(1, 0, Some(1_000)), key(2, 500, None)];
    let (event, seat) = (event("a"), seat());
    let early = Keyring::new(&keys, FleetTime(499)).unwrap();
    let late = Keyring::new(&keys, FleetTime(500)).unwrap();
    let last = Keyring::new(&keys, FleetTime(1_000)).unwrap();
    assert_eq!(
        [early.changes_at(), late.changes_at(), last.changes_at()],
        [Some(FleetTime(500)), Some(FleetTime(1_000)), None]
    );
    let (old, new) = (early.sign(&event, EPOCH, &seat), late.sign(&event, EPOCH, &seat));
    assert_eq!(early.verify_seat(&event, EPOCH, &new), Ok(seat), "an edge verifies by a key before it signs");
    assert_eq!(late.verify_seat(&event, EPOCH, &old), Ok(seat));
    assert_eq!(last.verify_seat(&event, EPOCH, &old), Err(TokenError::UnknownKey));
    assert_eq!(last.verify_seat(&event, EPOCH, &new), Ok(seat));
    assert!(Keyring::new(&[key(1, 0, Some(1))], FleetTime(1)).is_none());
}

#[test]
fn a_key_with_the_id_of_another_forges_nothing() {
    let (event, mut other) = (event("a"), key(1, 0, None));
    other.secret = [9; 32];
    let forged = Keyring::new(&[other], FleetTime(5)).unwrap().sign(&event, EPOCH, &seat());
    assert_eq!(ring().verify_seat(&event, EPOCH, &forged), Err(TokenError::Forged));
}

#[test]
fn no_secret_shows_in_debug_output() {
    assert_eq!(format!("{:?}", ring()), "[KeyId(1)]");
}

#[test]
fn a_ticket_with_the_longest_names_stays_short() {
    let (ring, event) = (ring(), event(&"x".repeat(63)));
    let (line, base, seen) = (LineEpoch(1), KeyBase::Arrival(OrderKey(1)), Window::from_number(1));
    let ticket = Ticket::new(seat().id, line, base, 1, seen, node(1));
    assert!(ring.sign(&event, EPOCH, &ticket).len() < 280);
}
