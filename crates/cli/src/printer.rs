//! The only place that writes: data on standard output, everything else on standard error.
//!
//! Text travels as styled spans and is sanitised here, so that nothing a file, a model or a sandbox says can speak to
//! the terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

/// How a span looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Doubtful,
}

/// A piece of text with its look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) look: Look,
    pub(crate) text: String,
}

/// A span of this look.
pub(crate) fn span(look: Look, text: impl Into<String>) -> Span {
    Span { look, text: text.into() }
}

/// A plain span.
pub(crate) fn plain(text: impl Into<String>) -> Span {
    span(Look::Plain, text)
}

/// Lines of spans.
pub(crate) type Page = Vec<Vec<Span>>;

/// Writes pages and JSON.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    written: Written,
}

/// Whether everything that was printed has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    All,
    /// The reader closed the pipe that we write to.
    PipeClosed,
    /// The disk is full, or worse: the system's words.
    Failed(String),
}

impl Printer {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, written: Written::All }
    }

    /// Whether machines read the output.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether everything that was printed has arrived.
    pub(crate) fn written(&self) -> Written {
        self.written.clone()
    }

    /// Data for people.
    pub(crate) fn page(&mut self, page: &Page) {
        let result = write_page(&mut anstream::stdout().lock(), page);
        self.note(&result);
    }

    /// Data for machines, with a newline at the end.
    pub(crate) fn data(&mut self, value: &impl serde::Serialize) {
        // Written as it is made: the text of deeply nested values is many times their size.
        let mut out = Escaped::new(io::BufWriter::new(io::stdout().lock()));
        let result = serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from);
        let result = result.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
        self.note(&result);
    }

    /// Text as it is, for scripts and files that we made ourselves.
    pub(crate) fn text(&mut self, text: &str) {
        let mut out = io::stdout().lock();
        let result = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.note(&result);
    }

    /// A message for people.
    pub(crate) fn message(&mut self, page: &Page) {
        let result = write_page(&mut anstream::stderr().lock(), page);
        self.note(&result);
    }

    fn note(&mut self, result: &io::Result<()>) {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.written = Written::PipeClosed,
            Err(error) => self.written = Written::Failed(error.to_string()),
            Ok(()) => {}
        }
    }
}

fn write_page(out: &mut impl Write, page: &Page) -> io::Result<()> {
    for line in page {
        for Span { look, text } in line {
            let style = style(*look);
            write!(out, "{style}{}{style:#}", sanitise(text))?;
        }
        writeln!(out)?;
    }
    out.flush()
}

fn style(look: Look) -> Style {
    let coloured = |colour: AnsiColor| colour.on_default();
    match look {
        Look::Plain => Style::new(),
        Look::Strong => Style::new().bold(),
        Look::Faint => Style::new().dimmed(),
        Look::Good => coloured(AnsiColor::Green),
        Look::Bad => coloured(AnsiColor::Red).bold(),
        Look::Doubtful => coloured(AnsiColor::Yellow),
    }
}

/// Whether a character would speak to the terminal or reorder the line: control characters, and the bidirectional and
/// invisible format characters with which text can be made to look like other text.
fn speaks(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(character, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether a character is not seen, or looks like a space and is none.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
    ) || matches!(character, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{fe00}'..='\u{fe0f}')
}

/// Whether a character may stand in an argument: everything but what speaks, and line breaks and tabs.
pub(crate) fn is_text(character: char) -> bool {
    matches!(character, '\n' | '\t') || !speaks(character)
}

/// Makes every character visible that would otherwise speak to the terminal.
pub(crate) fn sanitise(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if speaks(character) || is_unseen(character) {
            let _ = write!(clean, "{}", character.escape_unicode());
        } else {
            clean.push(character);
        }
    }
    clean
}

/// The same for JSON, which stays the same JSON: such characters occur in strings only, but for our own line breaks.
/// Escapes JSON as it is written.
pub(crate) struct Escaped<W> {
    out: W,
    /// The beginning of a character whose end has not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Escaped<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = std::mem::take(&mut self.begun);
        text.extend_from_slice(bytes);
        let mut rest = text.as_slice();
        for chunk in rest.utf8_chunks() {
            self.out.write_all(escape_json(chunk.valid()).as_bytes())?;
            rest = &rest[chunk.valid().len()..];
            // What begins at the end may be a character.
            if rest.len() == chunk.invalid().len() && rest.len() < 4 {
                break;
            }
            self.out.write_all("\u{fffd}".as_bytes())?;
            rest = &rest[chunk.invalid().len()..];
        }
        self.begun = rest.to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn escape_json(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && speaks(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(clean, "\\u{unit:04x}");
            }
        } else {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_speaks_to_the_terminal() {
        assert_eq!(sanitise("a\x1b[31mb\r\n\x07"), "a\\u{1b}[31mb\\u{d}\\u{a}\\u{7}");
        assert_eq!(sanitise("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(sanitise("evil\u{202e}gro.elpmaxe"), "evil\\u{202e}gro.elpmaxe");
        assert_eq!(sanitise("bücher 例え"), "bücher 例え");
        let text = "x\u{9b}31m\u{7f}\u{202e}\u{e0001}é";
        let json = escape_json(&serde_json::to_string(text).unwrap());
        assert_eq!(json, "\"x\\u009b31m\\u007f\\u202e\\udb40\\udc01é\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        for size in 1..6 {
            let mut out = Escaped::new(Vec::new());
            for part in [text.as_bytes(), b"\xff!"].concat().chunks(size) {
                out.write_all(part).unwrap();
            }
            let expected = "x\\u009b31m\\u007f\\u202e\\udb40\\udc01é\u{fffd}!";
            assert_eq!(String::from_utf8(out.out).unwrap(), expected, "in pieces of {size} bytes");
        }
    }
}
