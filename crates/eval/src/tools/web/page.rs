//! A page's bytes as text that a model can read.
//!
//! Hostile by assumption. HTML is cut into tags and text and never made into a tree: whatever is nested or left open, the
//! work grows with the length, nothing recurses, and what comes out is bounded.

use encoding_rs::{Encoding, UTF_8};
use html5gum::{DefaultEmitter, Token, Tokenizer};
use url::Url;

/// The most text of a page that is made; the model is shown less.
const MOST_TEXT: usize = 5 << 20;
const MOST_TITLE: usize = 300;
const MOST_ADDRESS: usize = 2000;

/// A page as a model sees it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
}

/// What sort of content is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Html,
    Text,
}

/// What a `Content-Type` means to us; `Err` is the type that is not shown.
pub(super) fn content(header: Option<&str>) -> Result<Content, String> {
    let essence = header.unwrap_or("text/plain").split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, subtype) = essence.split_once('/').unwrap_or((essence.as_str(), ""));
    match (kind, subtype) {
        ("text", "html") | ("application", "xhtml+xml") => Ok(Content::Html),
        ("text", _) | ("application", "json" | "xml" | "javascript" | "yaml") => Ok(Content::Text),
        (_, subtype) if subtype.ends_with("+json") || subtype.ends_with("+xml") => Ok(Content::Text),
        _ => Err(super::tidy(&essence, 100)),
    }
}

/// The bytes in the page's own encoding: what a mark at the beginning says, then the header, then UTF-8.
pub(super) fn decode(bytes: &[u8], header: Option<&str>) -> String {
    let parameters = header.unwrap_or_default().split(';').skip(1);
    let label = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    });
    let encoding = label.into_iter().find_map(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    encoding.decode(bytes).0.into_owned()
}

/// The text of HTML, with headings, lists and links as in Markdown.
pub(super) fn read(html: &str, base: &Url) -> Page {
    let mut emitter = DefaultEmitter::default();
    // The contents of scripts, styles and titles are no tags.
    emitter.naively_switch_states(true);
    let mut reader =
        Reader { base, title: String::new(), out: String::new(), space: false, pre: 0, inside: None, link: None };
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let href = tag.attributes.get(b"href".as_slice()).map(|href| String::from_utf8_lossy(href));
                reader.begin(&tag.name, href.as_deref());
            }
            Token::EndTag(tag) => reader.end(&tag.name),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        if reader.out.len() > MOST_TEXT {
            break;
        }
    }
    let Reader { title, mut out, .. } = reader;
    out.truncate(out.trim_end().len());
    let end = (0..=MOST_TEXT.min(out.len())).rev().find(|end| out.is_char_boundary(*end)).unwrap_or(0);
    out.truncate(end);
    Page { title: super::tidy(&title, MOST_TITLE), text: out }
}

struct Reader<'a> {
    base: &'a Url,
    title: String,
    out: String,
    /// Whether space is due before the next word.
    space: bool,
    /// How many elements want their white space kept.
    pre: u32,
    /// An element whose text is none, or is the title.
    inside: Option<Inside>,
    /// Where the open link leads, and where its text begins.
    link: Option<(String, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Title,
    Script,
    Style,
    Hidden,
}

fn inside(name: &[u8]) -> Option<Inside> {
    match name {
        b"title" => Some(Inside::Title),
        b"script" => Some(Inside::Script),
        b"style" => Some(Inside::Style),
        b"noscript" | b"iframe" | b"noembed" | b"noframes" => Some(Inside::Hidden),
        _ => None,
    }
}

/// How many line ends stand before and after an element.
fn lines(name: &[u8]) -> usize {
    match name {
        b"p" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" | b"ul" | b"ol" | b"dl" | b"table" | b"pre"
        | b"blockquote" | b"section" | b"article" | b"hr" => 2,
        b"div" | b"br" | b"li" | b"tr" | b"dt" | b"dd" | b"header" | b"footer" | b"main" | b"nav" | b"aside"
        | b"form" | b"figure" | b"figcaption" | b"body" | b"option" | b"summary" | b"details" | b"address" => 1,
        _ => 0,
    }
}

impl Reader<'_> {
    fn begin(&mut self, name: &[u8], href: Option<&str>) {
        if let Some(inside) = inside(name) {
            self.inside = Some(inside);
            return;
        }
        self.break_line(lines(name));
        match name {
            b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
                let depth = usize::from(name[1] - b'0');
                self.out.push_str(&"######"[..depth]);
                self.space = true;
            }
            b"li" => self.out.push_str("- "),
            b"pre" | b"textarea" => self.pre = self.pre.saturating_add(1),
            b"td" | b"th" if !self.out.is_empty() && !self.out.ends_with('\n') => {
                self.out.push_str(" |");
                self.space = true;
            }
            b"a" => {
                self.close_link();
                let address = href.filter(|href| href.len() <= MOST_ADDRESS && !href.starts_with('#'));
                let address = address.and_then(|href| self.base.join(href).ok());
                let address = address.filter(|url| matches!(url.scheme(), "http" | "https"));
                if let Some(address) = address.map(String::from).filter(|url| url.len() <= MOST_ADDRESS) {
                    self.flush_space();
                    self.link = Some((address, self.out.len()));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if inside(name).is_some() {
            self.inside = None;
            return;
        }
        match name {
            b"a" => self.close_link(),
            b"pre" | b"textarea" => self.pre = self.pre.saturating_sub(1),
            _ => {}
        }
        self.break_line(lines(name));
    }

    fn text(&mut self, text: &str) {
        match self.inside {
            Some(Inside::Title) if self.title.len() <= MOST_TITLE * 4 => return self.title.push_str(text),
            Some(_) => return,
            None => {}
        }
        for character in text.chars() {
            if self.pre > 0 && matches!(character, '\n' | '\t' | ' ') {
                self.flush_space();
                self.out.push(character);
            } else if character.is_whitespace() {
                self.space = true;
            } else if !character.is_control() {
                self.flush_space();
                self.out.push(character);
            }
        }
    }

    fn flush_space(&mut self) {
        if std::mem::take(&mut self.space) && !self.out.is_empty() && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
    }

    /// Makes `[text](address)` of what a link held; a link without text is left out.
    fn close_link(&mut self) {
        let Some((address, start)) = self.link.take() else { return };
        let held = self.out.get(start..).unwrap_or_default().trim();
        if !held.is_empty() && held != address {
            self.out.insert(start, '[');
            self.out.push_str("](");
            self.out.push_str(&address);
            self.out.push(')');
        }
    }

    fn break_line(&mut self, lines: usize) {
        if lines == 0 {
            return;
        }
        self.close_link();
        self.space = false;
        let kept = self.out.trim_end_matches(' ').len();
        self.out.truncate(kept);
        // Two are enough to know: there may be millions, and this is done for every tag.
        let there = if self.out.ends_with("\n\n") { 2 } else { usize::from(self.out.ends_with('\n')) };
        if !self.out.is_empty() {
            self.out.push_str(&"\n\n"[..lines.saturating_sub(there)]);
        }
    }
}

/// Text with tags and entities in it, as one line.
pub(super) fn plain(html: &str) -> String {
    let mut text = String::new();
    for token in Tokenizer::new(html) {
        let Ok(token) = token;
        if let Token::String(part) = token {
            text.push_str(&String::from_utf8_lossy(&part));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn page(html: &str) -> Page {
        read(html, &Url::parse("https://www.example.org/a/b").unwrap())
    }

    #[test]
    fn a_page_is_read() {
        let html = "<!DOCTYPE html><html><head><title>A &amp; B\n page</title><style>p {}</style>\
            <script>if (a < b) { '<p>no</p>' }</script></head><body><h1>Head</h1><p>One  <b>two</b>\n three \
            <a href='../c?d=1'>a link</a>, <a href='javascript:alert(1)'>none</a>.<ul><li>x<li>y</ul>\
            <pre>  kept\n    so</pre><table><tr><td>1<td>2</table><noscript>off</noscript>end<!-- no --></body>";
        let Page { title, text } = page(html);
        assert_eq!(title, "A & B page");
        insta::assert_snapshot!(text, @r"
        # Head

        One two three [a link](https://www.example.org/c?d=1), none.

        - x
        - y

          kept
            so

        1 | 2

        end
        ");
        assert_eq!(plain("a <strong>b</strong> &lt;c&gt; &#39;d"), "a b <c> 'd");
    }

    #[test]
    fn types_and_encodings_are_told_apart() {
        assert_eq!(content(Some("text/HTML; charset=x")), Ok(Content::Html));
        assert_eq!(content(Some("application/ld+json")), Ok(Content::Text));
        assert_eq!(content(None), Ok(Content::Text));
        assert_eq!(content(Some("image/png")), Err("image/png".into()));
        assert_eq!(content(Some("application/octet-stream")), Err("application/octet-stream".into()));
        assert_eq!(content(Some("")), Err(String::new()));
        assert_eq!(decode(b"gr\xfc\xdfe", Some("text/html; charset=\"ISO-8859-1\"")), "grüße");
        assert_eq!(decode(b"\xff\xfeh\0i\0", Some("text/html; charset=utf-8")), "hi");
        assert_eq!(decode(b"\xff", Some("text/plain; charset=nonsense")), "\u{fffd}");
    }

    /// Processor time of this thread: other tests and a busy machine do not count.
    fn processor_time() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
    }

    /// A hostile page takes time by its length, and nothing else.
    #[test]
    fn hostile_pages_neither_hang_nor_crash() {
        // Linear work on a page of this length takes a second without optimisation, quadratic work takes hours.
        const LENGTH: usize = 1 << 20;
        let repeated = |part: &str| part.repeat(LENGTH / part.len());
        for html in [
            repeated("<div>"),
            repeated("<b><i><p>"),
            repeated("</p>"),
            repeated("<table><tr><td>"),
            repeated("<a href='x'>y"),
            repeated("<a href=x>"),
            repeated("<pre> "),
            repeated("<!--"),
            repeated("<svg><title>"),
            repeated("&lt"),
            repeated("&#x10ffff;"),
            repeated("<script>"),
            format!("<p {}>", repeated("a=b ")),
            format!("<p {}>", "a".repeat(LENGTH)),
            format!("<pre>{}{}", "\n".repeat(LENGTH / 2), "<p>".repeat(LENGTH / 6)),
            format!("<pre>{}{}", " ".repeat(LENGTH / 2), "<p> ".repeat(LENGTH / 8)),
            format!("<a href=x>{}{}", "<pre> </pre>".repeat(LENGTH / 24), "<a>".repeat(LENGTH / 6)),
            "<".repeat(LENGTH),
            "\0".repeat(LENGTH),
        ] {
            let start = processor_time();
            page(&html);
            let taken = processor_time().saturating_sub(start);
            assert!(taken < Duration::from_secs(20), "{} took {taken:?}", &html[..20]);
        }
    }

    #[test]
    fn text_of_a_page_is_bounded() {
        // Each would be longer without the bound: by its own text, and by the address that every link repeats.
        let long = Url::parse(&format!("https://www.example.org/{}", "a".repeat(1900))).unwrap();
        let pages = [page(&"a".repeat(MOST_TEXT + 1)), read(&"<a href=?>b</a>".repeat(10_000), &long)];
        for page in pages {
            assert!((MOST_TEXT - 2000..=MOST_TEXT).contains(&page.text.len()), "{}", page.text.len());
        }
    }

    proptest! {
        #[test]
        fn random_pages_are_text(html in "(<[/a-z !=\"'&;#-]{0,8}>?|[a-z &;\\PC\n]{0,6}){0,60}") {
            let Page { title, text } = page(&html);
            prop_assert!(!title.contains('\n') && text.len() <= MOST_TEXT);
            prop_assert!(!text.contains("\n\n\n") || html.contains("<pre") || html.contains("<textarea"));
        }

        #[test]
        fn random_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..400), label in "[a-z0-9-]{0,12}") {
            let text = decode(&bytes, Some(&format!("text/html; charset={label}")));
            let _ = page(&text);
        }
    }
}
