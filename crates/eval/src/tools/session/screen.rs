//! What a terminal prints, as plain text: bounded, without control sequences, lines as they look in the end.
//!
//! Bytes come in any pieces; a character or a sequence may begin in one and end in another. Every character is looked at
//! once. Carriage returns and backspaces move within the line, so that of a progress bar its last state is left.

/// What the prompt ends with, as an operating system command of the terminal: the shell waits for input.
pub(super) const MARK: &str = "777;ringfence";
/// The most text that is kept until somebody takes it; of more, the end.
const KEPT: usize = 1 << 20;
/// A line is settled at this length: nothing moves back into it any more.
const LINE: usize = 1 << 14;
/// The longest sequence; what is longer was none.
const PARAMETERS: usize = 64;
const WORDS: usize = 4096;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// A sequence that ends with its first letter or digit.
    Short,
    /// `ESC [`, with its parameters so far.
    Control(String),
    /// `ESC ]` and the like: words up to an end mark. What of them could be our mark, and how many there were.
    Words(String, usize),
}

/// A terminal's output that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The beginning of a character.
    partial: Vec<u8>,
    state: State,
    text: String,
    line: Vec<char>,
    column: usize,
    /// Bytes of text that were not kept.
    dropped: u64,
    marks: u64,
    at_mark: bool,
}

/// What was printed since the last time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) text: String,
    /// Bytes before it that were not kept.
    pub(super) dropped: u64,
}

impl Screen {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        let mut rest = joined.as_slice();
        while !rest.is_empty() {
            let (good, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(good).unwrap_or_default(), Some((bad, error.error_len())))
                }
            };
            good.chars().for_each(|c| self.hear(c));
            rest = match bad {
                Some((bad, Some(length))) => {
                    self.hear(char::REPLACEMENT_CHARACTER);
                    &bad[length..]
                }
                Some((bad, None)) => {
                    self.partial = bad.to_vec();
                    &[]
                }
                None => &[],
            };
        }
    }

    /// How often the mark was printed, ever.
    pub(super) fn marks(&self) -> u64 {
        self.marks
    }

    /// Whether the mark is the last that was printed.
    pub(super) fn at_mark(&self) -> bool {
        self.at_mark
    }

    pub(super) fn take(&mut self) -> Shown {
        self.settle();
        self.bound(KEPT);
        Shown { text: std::mem::take(&mut self.text), dropped: std::mem::take(&mut self.dropped) }
    }

    fn hear(&mut self, c: char) {
        match std::mem::take(&mut self.state) {
            State::Text => self.plain(c),
            State::Escape => self.begin(c),
            State::Short => match c {
                ' '..='/' => self.state = State::Short,
                c if c.is_control() => self.plain(c),
                _ => {}
            },
            State::Control(mut parameters) => match c {
                ' '..='?' if parameters.len() < PARAMETERS => {
                    parameters.push(c);
                    self.state = State::Control(parameters);
                }
                'K' => self.erase(&parameters),
                ' '..='~' => {}
                c => self.plain(c),
            },
            State::Words(mut words, count) => match c {
                '\u{7}' | '\u{9c}' | '\u{1b}' => {
                    if words == MARK {
                        self.marks += 1;
                        self.at_mark = true;
                    }
                    // `ESC \` is an end mark too: its second half is a sequence without meaning.
                    if c == '\u{1b}' {
                        self.state = State::Escape;
                    }
                }
                // Cancelled; and words of several lines are somebody's text.
                '\u{18}' | '\u{1a}' | '\n' => self.plain(c),
                _ if count >= WORDS => {}
                c => {
                    if words.len() <= MARK.len() {
                        words.push(c);
                    }
                    self.state = State::Words(words, count + 1);
                }
            },
        }
    }

    /// What follows an escape says what sort of sequence it is.
    fn begin(&mut self, c: char) {
        match c {
            '[' => self.state = State::Control(String::new()),
            ']' | 'P' | 'X' | '^' | '_' => self.state = State::Words(String::new(), 0),
            ' '..='/' => self.state = State::Short,
            c if c.is_control() => self.plain(c),
            _ => {}
        }
    }

    fn plain(&mut self, c: char) {
        match c {
            '\n' => {
                self.settle();
                self.text.push('\n');
                self.at_mark = false;
                self.bound(2 * KEPT);
            }
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Control(String::new()),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.state = State::Words(String::new(), 0),
            c if c == '\t' || !c.is_control() => {
                self.at_mark = false;
                match self.line.get_mut(self.column) {
                    Some(place) => *place = c,
                    None => self.line.push(c),
                }
                self.column += 1;
                if self.line.len() >= LINE {
                    self.settle();
                    self.bound(2 * KEPT);
                }
            }
            _ => {}
        }
    }

    /// Erases within the line: to its end, or all of it.
    fn erase(&mut self, parameters: &str) {
        match parameters {
            "" | "0" => self.line.truncate(self.column),
            "2" => {
                self.line.clear();
                self.column = 0;
            }
            _ => {}
        }
    }

    /// The line is as it is from here on.
    fn settle(&mut self) {
        self.text.extend(self.line.drain(..));
        self.column = 0;
    }

    /// Drops the beginning of a text that has outgrown `most`; rarely, so that every byte is moved about once.
    fn bound(&mut self, most: usize) {
        if self.text.len() <= most {
            return;
        }
        let over = self.text.len() - KEPT;
        let cut = (over..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(over);
        self.text.drain(..cut);
        self.dropped += u64::try_from(cut).unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(bytes: &[u8]) -> String {
        let mut screen = Screen::default();
        screen.push(bytes);
        screen.take().text
    }

    #[test]
    fn control_sequences_are_taken_out() {
        for (raw, plain) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("\u{1b}(Bx\u{1b}=y\u{1b}Pq#0\u{1b}\\z", "xyz"),
            ("one\r\ntwo\r\n", "one\ntwo\n"),
            ("10%\r 50%\r100%\n", "100%\n"),
            ("working\r\u{1b}[Kdone\n", "done\n"),
            ("old\u{1b}[2Knew", "new"),
            ("pasx\u{8}s\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}", "pass"),
            ("ding\u{7}\u{0}\u{7f}\ttab", "ding\ttab"),
            ("\u{9b}1mbold\u{9d}words\u{9c}.", "bold."),
            ("\u{1b}]never ends\nstill here", "\nstill here"),
            ("\u{1b}[12", ""),
        ] {
            assert_eq!(shown(raw.as_bytes()), plain, "{raw:?}");
        }
        assert_eq!(shown(b"a\xff\xe2\x82b\xe2\x82"), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn the_mark_says_that_the_shell_waits() {
        let mut screen = Screen::default();
        screen.push(format!("out\n/srv$ \u{1b}]{MARK}\u{7}").as_bytes());
        assert_eq!((screen.marks(), screen.at_mark()), (1, true));
        screen.push(b"later");
        assert!(!screen.at_mark());
        // Not by its name alone.
        screen.push(MARK.as_bytes());
        screen.push(format!("\u{1b}]{MARK}x\u{7}\u{1b}]{MARK}\n").as_bytes());
        assert_eq!(screen.marks(), 1);
    }

    #[test]
    fn a_flood_keeps_its_end() {
        let mut screen = Screen::default();
        for _ in 0..1000 {
            screen.push("ä\n".repeat(5000).as_bytes());
        }
        screen.push(&b"x".repeat(3 << 20));
        screen.push(b"end");
        let shown = screen.take();
        assert!(shown.text.len() <= KEPT && shown.text.ends_with("xend"));
        assert_eq!(shown.dropped + u64::try_from(shown.text.len()).unwrap_or(0), 15_000_000 + (3 << 20) + 3);
        assert_eq!(screen.take(), Shown::default());
    }

    proptest! {
        #[test]
        fn whatever_a_terminal_prints_is_plain_text_in_any_pieces(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), Just(27), Just(b'['), Just(b']'), Just(7), Just(8), Just(13), Just(10), Just(b'K')],
                0..400,
            ),
            pieces in proptest::collection::vec(0_usize..400, 0..6),
        ) {
            let whole = shown(&bytes);
            prop_assert!(whole.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
            let mut cuts: Vec<usize> = pieces.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut screen = Screen::default();
            for pair in cuts.windows(2) {
                screen.push(&bytes[pair[0]..pair[1]]);
            }
            prop_assert_eq!(screen.take().text, whole);
        }
    }
}
