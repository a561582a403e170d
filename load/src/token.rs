//! What anybody can read in a token without its key: ids, buckets and expiry. Nothing here trusts it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What a token says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peek {
    /// The public name of the ticket.
    pub id: String,
    /// What kind of token it is, and what that kind says.
    pub says: Says,
}

/// What the kinds of tokens say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// A ticket, and once it is keyed what its key was made from.
    Ticket(Option<Base>),
    /// A pass, and when it ends, in unix milliseconds.
    Pass(u64),
    /// A ticket to be.
    Seat,
}

/// What a ticket's key was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The bucket (`random`: the whole part of the clock).
    pub bucket: u64,
    /// The floor of the bucket at the join, in 1/2^32 (`fifo`: the arrival in the bucket).
    pub floor: u32,
}

/// Reads a token of version 1; `None` for anything else.
#[must_use]
pub fn peek(token: &str) -> Option<Peek> {
    let (payload, _) = token.split_once('.')?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let mut from = Bytes(&payload);
    let [1, kind] = from.take::<2>()? else { return None };
    from.take::<4>()?;
    let [event] = from.take()?;
    from.skip(usize::from(event))?;
    from.take::<4>()?;
    Some(match kind {
        1 => {
            from.take::<4>()?;
            let id = from.id()?;
            from.take::<4>()?;
            Peek { id, says: Says::Ticket(from.base()?) }
        }
        2 => {
            let id = from.id()?;
            from.skip(8 + 2 + 4 + 4 + 1 + 8 + 4)?;
            Peek { id, says: Says::Pass(u64::from_be_bytes(from.take()?)) }
        }
        3 => Peek { id: from.id()?, says: Says::Seat },
        _ => return None,
    })
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.0 = self.0.get(length..)?;
        Some(())
    }

    fn id(&mut self) -> Option<String> {
        let node = u16::from_be_bytes(self.take()?);
        let generation = u32::from_be_bytes(self.take()?);
        let [a, b, c, d, e, f] = self.take()?;
        let sequence = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let parts = [u64::from(node), u64::from(generation), sequence];
        Some(parts.map(base36).join("-"))
    }

    fn base(&mut self) -> Option<Option<Base>> {
        let [keyed] = self.take()?;
        match keyed {
            0 => Some(None),
            1..=3 => {
                let bucket = u64::from(u32::from_be_bytes(self.take()?));
                Some(Some(Base { bucket, floor: u32::from_be_bytes(self.take()?) }))
            }
            _ => None,
        }
    }
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.extend(char::from_digit(u32::try_from(number % 36).unwrap_or_default(), 36));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// Builds tokens as a waiting room would, with a signature of zeros.
#[cfg(test)]
pub(crate) fn forge(kind: u8, event: &str, id: (u16, u32, u64), rest: &[u8]) -> String {
    let mut payload = vec![1, kind, 0, 0, 0, 1, u8::try_from(event.len()).unwrap()];
    payload.extend(event.as_bytes());
    payload.extend([0, 0, 0, 7]);
    if kind == 1 {
        payload.extend([0, 0, 0, 0]);
    }
    payload.extend(id.0.to_be_bytes());
    payload.extend(id.1.to_be_bytes());
    payload.extend(&id.2.to_be_bytes()[2..]);
    payload.extend(rest);
    format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode([0; 32]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_buckets_and_expiry_are_read_from_each_kind() {
        let id = (1, 1_700_000_000, 36);
        let name = "1-s44we8-10";
        let mut ticket = vec![0, 0, 0, 9, 1];
        ticket.extend(77u32.to_be_bytes());
        ticket.extend(8u32.to_be_bytes());
        let found = peek(&forge(1, "tour", id, &ticket)).unwrap();
        assert_eq!(
            found,
            Peek { id: name.to_owned(), says: Says::Ticket(Some(Base { bucket: 77, floor: 8 })) }
        );
        let found = peek(&forge(1, "tour", id, &[0, 0, 0, 9, 0])).unwrap();
        assert_eq!(found.says, Says::Ticket(None));
        let mut pass = vec![0; 31];
        pass.extend(1234u64.to_be_bytes());
        assert_eq!(peek(&forge(2, "tour", id, &pass)).unwrap().says, Says::Pass(1234));
        assert_eq!(peek(&forge(3, "tour", id, &[0; 4])).unwrap().says, Says::Seat);
    }

    #[test]
    fn what_is_no_token_says_nothing() {
        for text in
            ["", ".", "a.b", "AQ.AA", &forge(9, "tour", (1, 1, 1), &[]), &forge(2, "tour", (1, 1, 1), &[])]
        {
            assert_eq!(peek(text), None, "{text}");
        }
    }
}
