//! Request paths, in every way that an origin may read them.

use std::borrow::Cow;

use super::Refused;

/// Longer paths are refused, in bytes.
const LONGEST: usize = 8 * 1024;

/// A request path with its escapes resolved: one reading, or several where origins differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    /// The reading that changes least; it keeps empty segments, `%2f` and parameters.
    plain: Cow<'a, [u8]>,
    /// Those that differ from it.
    others: Vec<Vec<u8>>,
}

/// What some origins make of a path and others do not; a set of these is a way to read it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    MergesSlashes,
    DecodesSlashes,
    TurnsBackslashes,
    TurnsEscapedBackslashes,
    CutsParameters,
    /// `//x/y` is the path `/y` of the host `x`, as in a URL without a scheme.
    ReadsAuthority,
}

/// One byte of a decoded path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// It stands for itself.
    Byte(u8),
    /// `%2f`, `\` or `%5c`: a border of segments to an origin of this habit.
    MaybeBorder(u8, Habit),
    /// A bare `;`: from here to the end of the segment may be parameters.
    Semicolon,
}

/// Habits of an origin.
#[derive(Clone, Copy)]
struct Habits(u8);

impl Habit {
    const ALL: [Self; 6] = [
        Self::MergesSlashes,
        Self::DecodesSlashes,
        Self::TurnsBackslashes,
        Self::TurnsEscapedBackslashes,
        Self::CutsParameters,
        Self::ReadsAuthority,
    ];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Habits {
    fn include(self, habit: Habit) -> bool {
        self.0 & habit.bit() != 0
    }

    /// Every set of the habits that matter to a path, the empty one left out.
    fn that_matter(pieces: &[Piece]) -> impl Iterator<Item = Self> {
        let borders = |piece: &Piece| matches!(piece, Piece::Byte(b'/') | Piece::MaybeBorder(..));
        let matters = |habit: Habit| match habit {
            // A segment that is nothing but parameters is empty without them.
            Habit::MergesSlashes => {
                pieces.windows(2).any(|pair| pair.iter().all(borders)) || pieces.contains(&Piece::Semicolon)
            }
            Habit::ReadsAuthority => {
                pieces.get(1).is_some_and(|second| borders(second) || *second == Piece::Semicolon)
            }
            Habit::CutsParameters => pieces.contains(&Piece::Semicolon),
            habit => pieces.iter().any(|piece| matches!(piece, Piece::MaybeBorder(_, of) if *of == habit)),
        };
        let mask: u8 = Habit::ALL.into_iter().filter(|habit| matters(*habit)).map(Habit::bit).sum();
        (1..1 << Habit::ALL.len()).filter(move |set| set & !mask == 0).map(Self)
    }
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
    if has_dot_segment(&pieces) {
        return Err(Refused::DotSegment);
    }
    let plain = read_as(&pieces, Habits(0));
    let mut others: Vec<Vec<u8>> = Vec::new();
    for habits in Habits::that_matter(&pieces) {
        let reading = read_as(&pieces, habits);
        if plain != reading && !others.contains(&reading) {
            others.push(reading);
        }
    }
    Ok(NormalPath { plain: Cow::Owned(plain), others })
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
            b'/' if escaped => Piece::MaybeBorder(byte, Habit::DecodesSlashes),
            b'\\' if escaped => Piece::MaybeBorder(byte, Habit::TurnsEscapedBackslashes),
            b'\\' => Piece::MaybeBorder(byte, Habit::TurnsBackslashes),
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

/// Whether a segment is `.` or `..`, wherever any origin may see a border or parameters. Origins that resolve them and
/// origins that do not would be asked for different things; no browser sends them.
fn has_dot_segment(pieces: &[Piece]) -> bool {
    let border = |piece: &Piece| matches!(piece, Piece::Byte(b'/') | Piece::MaybeBorder(..));
    let parameters = |piece: &Piece| matches!(piece, Piece::Semicolon | Piece::Byte(b';'));
    pieces.split(border).any(|segment| {
        let name = segment.split(parameters).next().unwrap_or_default();
        matches!(name, [Piece::Byte(b'.')] | [Piece::Byte(b'.'), Piece::Byte(b'.')])
    })
}

/// The path as an origin of these habits reads it.
fn read_as(pieces: &[Piece], habits: Habits) -> Vec<u8> {
    let border = |piece: &Piece| match piece {
        Piece::MaybeBorder(_, habit) => habits.include(*habit),
        piece => *piece == Piece::Byte(b'/'),
    };
    let parameters = |piece: &Piece| *piece == Piece::Semicolon && habits.include(Habit::CutsParameters);
    // What is before the leading border is no segment.
    let mut segments: Vec<&[Piece]> = pieces
        .split(border)
        .skip(1)
        .map(|segment| segment.split(parameters).next().unwrap_or_default())
        .collect();
    if habits.include(Habit::ReadsAuthority) && segments.first().is_some_and(|first| first.is_empty()) {
        let authority = segments.iter().position(|segment| !segment.is_empty());
        segments.drain(..authority.map_or(segments.len(), |at| at + 1));
    }
    if habits.include(Habit::MergesSlashes) {
        let ends_in_border = segments.last().is_some_and(|last| last.is_empty());
        segments.retain(|segment| !segment.is_empty());
        segments.extend(ends_in_border.then_some(&[][..]));
    }
    let mut path = Vec::with_capacity(pieces.len() + 1);
    for segment in segments {
        path.push(b'/');
        for piece in segment {
            match piece {
                Piece::Semicolon => path.push(b';'),
                Piece::MaybeBorder(b'/', _) => path.extend(b"%2f"),
                Piece::Byte(byte) | Piece::MaybeBorder(byte, _) => path.push(*byte),
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
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
