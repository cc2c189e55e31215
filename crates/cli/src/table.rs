//! A plain table that fits the terminal: the widest columns wrap first.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::printer::{Look, Page, Span, plain, sanitise, span};

/// Between two columns.
const GAP: usize = 2;
/// How far a section's rows stand in.
pub(crate) const INDENT: usize = 2;
/// No column is squeezed below this.
const NARROWEST: usize = 14;

/// The width to print for: the terminal's, or what a log or a pipe can take.
pub(crate) fn page_width() -> usize {
    terminal_size::terminal_size().map_or(120, |(width, _)| usize::from(width.0)).clamp(60, 160)
}

/// Lays out `rows` under `header` within `width`; an empty header is left out.
pub(crate) fn table(header: &[&str], rows: &[Vec<Span>], width: usize) -> Page {
    let titles: Vec<Span> = header.iter().map(|title| span(Look::Faint, *title)).collect();
    let all: Vec<&Vec<Span>> =
        if titles.is_empty() { rows.iter().collect() } else { std::iter::once(&titles).chain(rows).collect() };
    let widths = fit(&all, width);
    all.into_iter().flat_map(|row| lay_out(row, &widths)).collect()
}

/// The same page a little further right.
pub(crate) fn indented(page: Page) -> Page {
    let shift = |mut line: Vec<Span>| {
        line.insert(0, plain(" ".repeat(INDENT)));
        line
    };
    page.into_iter().map(shift).collect()
}

/// The natural width of every column, squeezed from the widest until all fit.
fn fit(rows: &[&Vec<Span>], width: usize) -> Vec<usize> {
    let columns = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns)
        .map(|index| {
            rows.iter().filter_map(|row| row.get(index)).map(|cell| sanitise(&cell.text).width()).max().unwrap_or(0)
        })
        .collect();
    let gaps = GAP * columns.saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// One row as as many lines as its longest cell needs.
fn lay_out(row: &[Span], widths: &[usize]) -> Page {
    let cells: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(cell, width)| wrap(&sanitise(&cell.text), *width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |index: usize| {
        let mut spans = Vec::new();
        for (column, (cell, lines)) in row.iter().zip(&cells).enumerate() {
            let text = lines.get(index).map_or("", String::as_str);
            spans.push(span(cell.look, text));
            if column + 1 < row.len() {
                spans.push(plain(" ".repeat(widths[column].saturating_sub(text.width()) + GAP)));
            }
        }
        while spans.last().is_some_and(|last| last.text.trim().is_empty()) {
            spans.pop();
        }
        spans
    };
    (0..height).map(line).collect()
}

/// Breaks at spaces, and inside a word that is wider than a line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').flat_map(|word| pieces(word, width)) {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.width() + 1 + word.width() > width {
            lines.push(word);
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in word.chars() {
        let Some(piece) = pieces.last_mut() else { break };
        if piece.width() + character.width().unwrap_or(0) > width && !piece.is_empty() {
            pieces.push(character.to_string());
        } else {
            piece.push(character);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[Vec<Span>], width: usize) -> String {
        let lines = table(&["name", "text"], rows, width);
        lines
            .iter()
            .map(|line| line.iter().map(|span| span.text.as_str()).collect::<String>())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn wide_columns_wrap_and_narrow_ones_stay() {
        assert_eq!(wrap("unix:///run/x y", 8), ["unix:///", "run/x y"]);
        let rows = vec![vec![plain("short"), plain("some words that do not fit")], vec![plain("例え"), plain("wide")]];
        assert_eq!(shown(&rows, 22), "name   text\nshort  some words that\n       do not fit\n例え   wide");
    }
}
