//! Counting what overlaps.

/// How many are there at most at once, and when that was first reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    /// How many.
    pub(super) count: u64,
    /// When.
    pub(super) at: u64,
}

/// The levels of spans `from..to`: each change of their number, in order of time.
#[must_use]
pub(super) fn levels(spans: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut edges: Vec<(u64, i64)> = Vec::new();
    for (from, to) in spans {
        if to > from {
            edges.push((from, 1));
            edges.push((to, -1));
        }
    }
    edges.sort_unstable();
    let mut levels: Vec<(u64, u64)> = Vec::new();
    let mut level = 0i64;
    for (at, step) in edges {
        level = level.saturating_add(step);
        let now = u64::try_from(level).unwrap_or(0);
        match levels.last_mut() {
            Some(last) if last.0 == at => last.1 = now,
            _ => levels.push((at, now)),
        }
    }
    levels
}

/// The highest level.
#[must_use]
pub(super) fn peak(levels: &[(u64, u64)]) -> Peak {
    let mut peak = Peak::default();
    for &(at, count) in levels {
        if count > peak.count {
            peak = Peak { count, at };
        }
    }
    peak
}

/// The time and level-weighted time of `levels` inside the spans of `while_us`, with each level cut at `cap`.
#[must_use]
pub(super) fn weigh(levels: &[(u64, u64)], while_us: &[(u64, u64)], cap: u64) -> (u64, f64) {
    let mut time = 0u64;
    let mut weighted = 0.0;
    let ends = levels.iter().skip(1).map(|&(at, _)| at).chain([u64::MAX]);
    let before = [((0, levels.first().map_or(u64::MAX, |&(at, _)| at)), 0)];
    let pieces = levels.iter().zip(ends).map(|(&(from, level), to)| ((from, to), level));
    for ((from, to), level) in before.into_iter().chain(pieces) {
        for &(start, end) in while_us {
            let length = end.min(to).saturating_sub(start.max(from));
            time = time.saturating_add(length);
            weighted += length as f64 * level.min(cap) as f64;
        }
    }
    (time, weighted)
}

/// The spans in which anything of `spans` is there.
#[must_use]
pub(super) fn union(spans: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut union = Vec::new();
    let mut open = None;
    for (at, level) in levels(spans) {
        match (open, level) {
            (None, 1..) => open = Some(at),
            (Some(from), 0) => {
                union.push((from, at));
                open = None;
            }
            _ => {}
        }
    }
    union
}

/// The most of `spans` that lie whole inside a window of `width`, and the places of those.
#[must_use]
pub(super) fn most_within(spans: &[(u64, u64, usize)], width: u64) -> Vec<usize> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut most: Vec<usize> = Vec::new();
    for (first, &(start, _, _)) in sorted.iter().enumerate() {
        let end = start.saturating_add(width);
        let inside = sorted.iter().skip(first).take_while(|span| span.0 <= end);
        let inside: Vec<usize> = inside.filter(|span| span.1 <= end).map(|span| span.2).collect();
        if inside.len() > most.len() {
            most = inside;
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_ends_where_another_begins_does_not_overlap_it() {
        let levels = levels([(0, 10), (10, 20), (5, 15)]);
        assert_eq!(levels, [(0, 1), (5, 2), (10, 2), (15, 1), (20, 0)]);
        assert_eq!(peak(&levels), Peak { count: 2, at: 5 });
    }

    #[test]
    fn weights_count_the_time_before_the_first_level_as_empty() {
        let levels = levels([(10, 20), (10, 20), (15, 20)]);
        let (time, weighted) = weigh(&levels, &[(0, 30)], 2);
        assert_eq!(time, 30);
        assert!((weighted - 20.0).abs() < 1e-9, "{weighted}");
    }

    #[test]
    fn the_union_has_no_overlaps_and_no_empty_spans() {
        assert_eq!(union([(0, 5), (3, 8), (8, 9), (20, 20), (11, 12)]), [(0, 9), (11, 12)]);
    }

    #[test]
    fn only_spans_whole_inside_the_window_count() {
        let spans = [(0, 1, 0), (5, 20, 1), (9, 10, 2), (10, 11, 3)];
        assert_eq!(most_within(&spans, 10), [0, 2]);
        assert_eq!(most_within(&spans, 15), [0, 2, 3]);
        assert_eq!(most_within(&spans[1..], 15), [1, 2, 3]);
    }
}
