//! Texts without the ends of their lines: what `base64` and `xxd -p` write is broken at some column.

/// Ends of lines before this place are not left out; forms with such an end there are forms of their own.
pub(super) const UNFOLDED: usize = super::forms::SHORTEST;
/// So many are left out. A piece in base 64 has one at most, in hexadecimal digits two.
const FOLDS: usize = 2;
/// Shorter lines are not those of an encoder.
const SHORTEST_LINE: usize = 32;
/// Room for the longest form.
const ROOM: usize = 640;

/// How many bytes two texts have in common.
pub(super) fn same(one: &[u8], other: &[u8]) -> usize {
    let most = one.len().min(other.len());
    let (one, other) = (&one[..most], &other[..most]);
    let differ = |a: &[u8; 8], b: &[u8; 8]| u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
    let mut count = 0;
    for (a, b) in one.as_chunks().0.iter().zip(other.as_chunks().0) {
        let difference = differ(a, b);
        if difference != 0 {
            return count + difference.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    match (one.last_chunk(), other.last_chunk()) {
        // Eight zeros if they are the same to the end.
        (Some(a), Some(b)) => most - 8 + differ(a, b).trailing_zeros() as usize / 8,
        _ => one.iter().zip(other).take_while(|(a, b)| a == b).count(),
    }
}

/// Whether the end of a line may begin with this byte.
pub(super) fn may_begin(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\\')
}

/// The bytes of the end of a line at this place of a text, also as JSON has it; none if only half of it is there.
fn line_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..).unwrap_or_default() {
        // The half of another, which was not left out.
        [b'\n', ..] if at > 0 && text[at - 1] == b'\r' => Some(0),
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] | [b'\\', b'n', ..] => Some(2),
        [b'\r' | b'\\'] => None,
        _ => Some(0),
    }
}

/// Whether the end of a line is left out behind so many bytes and ends, the last of them at `line`.
fn may_fold(length: usize, count: usize, line: Option<usize>) -> bool {
    length >= UNFOLDED && count < FOLDS && line.is_none_or(|line| length - line >= SHORTEST_LINE)
}

/// Whether a text without the ends of its lines may begin so, as far as both go.
pub(super) fn begins_so(form: &[u8], text: &[u8]) -> bool {
    let (mut place, mut at, mut line) = (0, 0, None);
    for folds in 0..=FOLDS {
        let count = same(&form[place..], &text[at..]);
        (place, at) = (place + count, at + count);
        if place == form.len() || at == text.len() {
            return true;
        }
        match line_end(text, at) {
            None => return true,
            Some(count) if count > 0 && may_fold(place, folds, line) => (at, line) = (at + count, Some(place)),
            Some(_) => return false,
        }
    }
    false
}

/// The beginning of a text without the ends of its lines.
pub(super) struct Folded {
    text: [u8; ROOM],
    length: usize,
    /// Where an end was left out, and its bytes.
    folds: [(usize, usize); FOLDS],
    count: usize,
    open: bool,
}

impl Folded {
    /// Of so many bytes, if there are; of a text of which more may come unless this is its last part.
    pub(super) fn new(text: &[u8], most: usize, last: bool) -> Self {
        let mut folded = Self { text: [0; ROOM], length: 0, folds: [(0, 0); FOLDS], count: 0, open: false };
        let mut at = 0;
        while folded.length < most.min(ROOM) {
            let line = folded.folds[..folded.count].last().map(|(at, _)| *at);
            let may_fold = may_fold(folded.length, folded.count, line);
            match (text.get(at), line_end(text, at)) {
                (None, _) => {
                    folded.open = !last;
                    break;
                }
                (Some(_), None) if may_fold && !last => {
                    folded.open = true;
                    break;
                }
                (Some(_), Some(end)) if may_fold && end > 0 => {
                    folded.folds[folded.count] = (folded.length, end);
                    folded.count += 1;
                    at += end;
                }
                (Some(byte), _) => {
                    folded.text[folded.length] = *byte;
                    folded.length += 1;
                    at += 1;
                }
            }
        }
        folded
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Whether what comes next belongs to it.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// How many bytes its first bytes were.
    pub(super) fn before(&self, length: usize) -> usize {
        length + self.folds[..self.count].iter().filter(|(at, _)| *at < length).map(|(_, end)| end).sum::<usize>()
    }
}
