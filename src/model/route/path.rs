//! Request paths, in every way that an origin may read them.

use std::borrow::Cow;

use super::Refused;

/// Longer paths are refused, in bytes.
const LONGEST: usize = 8 * 1024;

/// A request path with dot segments and escapes resolved: one reading, or several where origins differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    /// The reading that changes least; it keeps empty segments, `%2f` and parameters.
    plain: Cow<'a, [u8]>,
    /// Those that differ from it.
    others: Vec<Vec<u8>>,
}

/// What an origin makes of the parts of a path that origins differ in.
#[derive(Clone, Copy)]
struct Habits {
    merges_slashes: bool,
    decodes_slashes: bool,
    cuts_parameters: bool,
}

/// One byte of a decoded path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// It stands for itself.
    Byte(u8),
    /// `\`, `%5c` or `%2f`: a border of segments, or not.
    MaybeBorder(u8),
    /// A bare `;`: from here to the end of the segment may be parameters.
    Semicolon,
}

/// Reads the raw path of a request; a query is ignored.
///
/// # Errors
/// [`Refused`] for what no origin should be asked to make sense of.
pub fn normalise(raw: &[u8]) -> Result<NormalPath<'_>, Refused> {
    let path = raw.split(|byte| *byte == b'?').next().unwrap_or_default();
    if path.first() != Some(&b'/') {
        return Err(Refused::NotAPath);
    }
    if path.len() > LONGEST {
        return Err(Refused::TooLong);
    }
    let unusual = |byte: &u8| matches!(byte, b'%' | b'\\' | b';' | b'#' | 0..=0x20 | 0x7f..);
    let empty_or_dotted = path.windows(2).any(|pair| matches!(pair, b"//" | b"/."));
    if !empty_or_dotted && !path.iter().any(unusual) {
        return Ok(NormalPath { plain: Cow::Borrowed(path), others: Vec::new() });
    }
    let pieces = decode(path)?;
    let plain_habits = Habits { merges_slashes: false, decodes_slashes: false, cuts_parameters: false };
    let plain = Cow::Owned(resolve(&pieces, plain_habits)?);
    let differ = |piece: &Piece| matches!(piece, Piece::MaybeBorder(_) | Piece::Semicolon);
    let mut others: Vec<Vec<u8>> = Vec::new();
    if !path.windows(2).any(|pair| pair == b"//") && !pieces.iter().any(differ) {
        return Ok(NormalPath { plain, others });
    }
    for flags in 1u8..8 {
        let habits = Habits {
            merges_slashes: flags & 1 != 0,
            decodes_slashes: flags & 2 != 0,
            cuts_parameters: flags & 4 != 0,
        };
        let reading = resolve(&pieces, habits)?;
        if *plain != reading && !others.contains(&reading) {
            others.push(reading);
        }
    }
    Ok(NormalPath { plain, others })
}

fn decode(path: &[u8]) -> Result<Vec<Piece>, Refused> {
    let mut pieces = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let (byte, escaped) = if first == b'%' {
            let ([high, low], after) = after.split_first_chunk::<2>().ok_or(Refused::BadEscape)?;
            rest = after;
            (hex(*high)? << 4 | hex(*low)?, true)
        } else {
            (first, false)
        };
        pieces.push(match byte {
            0..=0x1f | 0x7f => return Err(Refused::NotAPath),
            // Bytes that begin overlong forms of `.` and `/`, and nothing else in UTF-8.
            0xc0 | 0xc1 => return Err(Refused::BadEscape),
            b' ' | b'#' | b'?' if !escaped => return Err(Refused::NotAPath),
            b'/' if escaped => Piece::MaybeBorder(byte),
            b'\\' => Piece::MaybeBorder(byte),
            b';' if !escaped => Piece::Semicolon,
            other => Piece::Byte(other),
        });
    }
    if pieces.windows(3).any(hides_a_border) { Err(Refused::BadEscape) } else { Ok(pieces) }
}

/// Whether a second decoding would find a dot, a slash, a semicolon, a percent sign or a control character here.
fn hides_a_border(pieces: &[Piece]) -> bool {
    let [Piece::Byte(b'%'), Piece::Byte(high), Piece::Byte(low)] = pieces else { return false };
    let digits = [high.to_ascii_lowercase(), low.to_ascii_lowercase()];
    matches!(digits, [b'2', b'e' | b'f' | b'5'] | [b'5', b'c'] | [b'3', b'b'] | [b'0' | b'1', _])
}

fn hex(digit: u8) -> Result<u8, Refused> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(Refused::BadEscape),
    }
}

/// Removes dot segments as RFC 3986 §5.2.4 does, the way an origin of these habits would.
fn resolve(pieces: &[Piece], habits: Habits) -> Result<Vec<u8>, Refused> {
    let mut segments: Vec<Vec<u8>> = Vec::new();
    let mut segment: Vec<u8> = Vec::new();
    let mut skipping = false;
    let mut ends_in_border = false;
    // The leading `/` opens the first segment; the end closes the last one.
    for piece in pieces.iter().skip(1).map(Some).chain([None]) {
        let border = match piece {
            None | Some(Piece::Byte(b'/')) => true,
            Some(Piece::MaybeBorder(_)) => habits.decodes_slashes,
            Some(Piece::Byte(_) | Piece::Semicolon) => false,
        };
        if !border {
            match piece {
                Some(Piece::Semicolon) if habits.cuts_parameters => skipping = true,
                _ if skipping => {}
                Some(Piece::Semicolon) => segment.push(b';'),
                Some(Piece::MaybeBorder(b'/')) => segment.extend(b"%2f"),
                Some(Piece::Byte(byte) | Piece::MaybeBorder(byte)) => segment.push(*byte),
                None => {}
            }
            continue;
        }
        skipping = false;
        let last = piece.is_none();
        ends_in_border = matches!(segment.as_slice(), b"" | b"." | b"..");
        match std::mem::take(&mut segment).as_slice() {
            b"." => {}
            b".." => {
                segments.pop().ok_or(Refused::AboveRoot)?;
            }
            b"" if last || habits.merges_slashes => {}
            other => segments.push(other.to_vec()),
        }
    }
    let mut path = Vec::with_capacity(pieces.len());
    for segment in &segments {
        path.push(b'/');
        path.extend(segment);
    }
    if ends_in_border || path.is_empty() {
        path.push(b'/');
    }
    Ok(path)
}

impl NormalPath<'_> {
    /// Every reading.
    pub(super) fn readings(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(self.plain.as_ref()).chain(self.others.iter().map(Vec::as_slice))
    }

    /// The reading that changes least.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// Whether every reading is the prefix or lies below it, on a border of segments.
    #[must_use]
    pub fn is_below(&self, prefix: &str) -> bool {
        self.readings().all(|reading| below(reading, prefix.as_bytes(), <[u8]>::eq))
    }

    /// The path in its plain reading, if it is text and origins do not differ about it.
    #[must_use]
    pub fn unambiguous(&self) -> Option<&str> {
        self.others.is_empty().then(|| std::str::from_utf8(&self.plain).ok()).flatten()
    }
}

/// Whether `path` is `prefix` or lies below it, on a border of segments, by this equality of bytes.
pub(super) fn below(path: &[u8], prefix: &[u8], equal: fn(&[u8], &[u8]) -> bool) -> bool {
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
    let Some((head, rest)) = path.split_at_checked(prefix.len()) else { return false };
    equal(head, prefix) && (rest.is_empty() || rest.first() == Some(&b'/'))
}
