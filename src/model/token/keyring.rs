//! Signing and verifying.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::payload::{Head, Reader};
use super::{Pass, Seat, Ticket, Token};
use crate::model::ids::{EventId, KeyId, LedgerEpoch};
use crate::model::ledger::KeyRecord;
use crate::model::time::FleetTime;

/// No token of ours is longer: what is, is refused unread.
const LONGEST: usize = 512;

const MAC_BYTES: usize = 32;

/// Why a token is refused. The text of the token is in no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It does not have the shape of a token.
    #[error("the token has not the shape of one; send it as it was received")]
    Malformed,
    /// Its MAC does not hold.
    #[error("the token's signature does not hold; send it as it was received")]
    Forged,
    /// It is signed with a key that this ring does not hold: revoked, too old, or too new for this node.
    #[error("the token's signing key is not known here")]
    UnknownKey,
    /// It belongs to another event.
    #[error("the token belongs to another event")]
    WrongEvent,
    /// It was made before the control log was founded anew or restored.
    #[error("the token was made before the waiting room was set up anew; join again")]
    WrongEpoch,
    /// It is a token of another kind.
    #[error("the token is of another kind than is asked for here")]
    WrongKind,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Ticket {}
    impl Sealed for super::Pass {}
    impl Sealed for super::Seat {}
}

/// What a token can say: [`Ticket`], [`Pass`] or [`Seat`].
pub trait Content: sealed::Sealed + Sized {
    /// The kind, inside the MAC.
    const KIND: u8;
    /// Appends the bytes.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the bytes that [`Content::write`] made; `None` for any others.
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

struct Key {
    id: KeyId,
    /// The key schedule: inner and outer hash state, computed once.
    schedule: Hmac<Sha256>,
}

/// The keys that are valid at one time.
pub struct Keyring {
    keys: Vec<Key>,
    /// Where in `keys` the signing key lies.
    signer: usize,
    changes_at: Option<FleetTime>,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| key.id)).finish()
    }
}

impl Keyring {
    /// The ring of the keys that are valid at `now`: the newest one that may sign signs (the oldest valid one if none
    /// may yet), all verify. `None` if no key is valid: then nothing can be signed or verified.
    #[must_use]
    pub fn new(records: &[KeyRecord], now: FleetTime) -> Option<Self> {
        let mut valid: Vec<&KeyRecord> =
            records.iter().filter(|key| key.verifies_until.is_none_or(|until| now < until)).collect();
        valid.sort_by_key(|key| key.id);
        let signer = valid.iter().rposition(|key| key.signs_from <= now).unwrap_or(0);
        let changes_at = valid
            .iter()
            .flat_map(|key| [Some(key.signs_from), key.verifies_until])
            .flatten()
            .filter(|at| *at > now)
            .min();
        let keys: Vec<Key> = valid
            .into_iter()
            .filter_map(|key| {
                let schedule = Hmac::new_from_slice(&key.secret).ok()?;
                Some(Key { id: key.id, schedule })
            })
            .collect();
        (signer < keys.len()).then_some(Self { keys, signer, changes_at })
    }

    /// When another key begins to sign or one ceases to verify: the ring must be made anew then.
    #[must_use]
    pub fn changes_at(&self) -> Option<FleetTime> {
        self.changes_at
    }

    /// Signs a ticket, pass or seat of an event.
    #[must_use]
    pub fn sign<C: Content>(&self, event: &EventId, epoch: LedgerEpoch, content: &C) -> String {
        let Some(key) = self.keys.get(self.signer) else { return String::new() };
        let mut payload = Vec::with_capacity(192);
        Head { kind: C::KIND, key: key.id, event: event.as_str().as_bytes(), epoch }.write(&mut payload);
        content.write(&mut payload);
        let mut text = String::with_capacity(LONGEST / 2);
        URL_SAFE_NO_PAD.encode_string(&payload, &mut text);
        let mac = mac_of(key, &text);
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(mac, &mut text);
        text
    }

    /// Reads a ticket of an event.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify_ticket(
        &self,
        event: &EventId,
        epoch: LedgerEpoch,
        text: &str,
    ) -> Result<Ticket, TokenError> {
        self.verify(event, epoch, text)
    }

    /// Reads a pass of an event.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify_pass(&self, event: &EventId, epoch: LedgerEpoch, text: &str) -> Result<Pass, TokenError> {
        self.verify(event, epoch, text)
    }

    /// Reads a seat of an event.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn verify_seat(&self, event: &EventId, epoch: LedgerEpoch, text: &str) -> Result<Seat, TokenError> {
        self.verify(event, epoch, text)
    }

    /// Reads a token of an event, of whatever kind.
    ///
    /// # Errors
    /// See [`TokenError`]; never [`TokenError::WrongKind`].
    pub fn verify_any(&self, event: &EventId, epoch: LedgerEpoch, text: &str) -> Result<Token, TokenError> {
        let mut scratch = [0; LONGEST];
        let (head, mut rest) = self.authentic(event, epoch, text, &mut scratch)?;
        let token = match head.kind {
            Ticket::KIND => Ticket::read(&mut rest).map(Token::Ticket),
            Pass::KIND => Pass::read(&mut rest).map(Token::Pass),
            Seat::KIND => Seat::read(&mut rest).map(Token::Seat),
            _ => None,
        };
        token.filter(|_| rest.is_empty()).ok_or(TokenError::Malformed)
    }

    fn verify<C: Content>(&self, event: &EventId, epoch: LedgerEpoch, text: &str) -> Result<C, TokenError> {
        let mut scratch = [0; LONGEST];
        let (head, mut rest) = self.authentic(event, epoch, text, &mut scratch)?;
        if head.kind != C::KIND {
            return Err(TokenError::WrongKind);
        }
        C::read(&mut rest).filter(|_| rest.is_empty()).ok_or(TokenError::Malformed)
    }

    /// The payload of a token whose MAC holds, that belongs to the event and the epoch.
    fn authentic<'s>(
        &self,
        event: &EventId,
        epoch: LedgerEpoch,
        text: &str,
        scratch: &'s mut [u8; LONGEST],
    ) -> Result<(Head<'s>, Reader<'s>), TokenError> {
        if text.len() > LONGEST {
            return Err(TokenError::Malformed);
        }
        let (payload, mac) = text.split_once('.').ok_or(TokenError::Malformed)?;
        let mut shown = [0; MAC_BYTES + 1];
        let length = URL_SAFE_NO_PAD.decode_slice(mac, &mut shown).map_err(|_| TokenError::Malformed)?;
        let shown = shown.get(..length).filter(|mac| mac.len() == MAC_BYTES).ok_or(TokenError::Malformed)?;
        let length = URL_SAFE_NO_PAD.decode_slice(payload, scratch).map_err(|_| TokenError::Malformed)?;
        let mut rest = Reader::new(scratch.get(..length).ok_or(TokenError::Malformed)?);
        let head = Head::read(&mut rest).ok_or(TokenError::Malformed)?;
        let key = self.keys.iter().find(|key| key.id == head.key).ok_or(TokenError::UnknownKey)?;
        if !bool::from(mac_of(key, payload).ct_eq(shown)) {
            return Err(TokenError::Forged);
        }
        if head.event != event.as_str().as_bytes() {
            return Err(TokenError::WrongEvent);
        }
        if head.epoch != epoch {
            return Err(TokenError::WrongEpoch);
        }
        Ok((head, rest))
    }
}

fn mac_of(key: &Key, encoded: &str) -> [u8; MAC_BYTES] {
    let mut mac = key.schedule.clone();
    mac.update(encoded.as_bytes());
    mac.finalize().into_bytes().into()
}
