//! A picture of a set: the score of each task and model, with the interval in which it is believed to lie.
//!
//! The colours are in the middle between black and white, and nothing is behind them: it can be read on light pages and on
//! dark ones. The same rows make the same bytes.

use std::fmt::Write as _;

use super::eval_table::Row;

const LEFT: f64 = 300.0;
const WIDTH: f64 = 420.0;
const RIGHT: f64 = 90.0;
const LINE: f64 = 22.0;
const TOP: f64 = 40.0;
/// The longest name that is shown.
const CHARACTERS: usize = 36;
const GREY: &str = "#808080";
const COLOURS: [&str; 6] = ["#3987c4", "#d9772b", "#3a9a5c", "#b868b8", "#c05050", "#8c8c2a"];

/// Text as it may stand in XML; characters that XML has no place for go.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('?'),
            other if other.is_control() => out.push('?'),
            other => out.push(other),
        }
    }
    out
}

fn short(text: &str) -> String {
    if text.chars().count() <= CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS - 1).chain(['…']).collect()
}

/// From where to where the axis goes: a share from 0 to 1, and everything else as far as it goes.
fn range(rows: &[Row]) -> (f64, f64) {
    let scores = rows.iter().filter_map(|row| row.score.as_ref());
    let (low, high) = scores.fold((0.0_f64, 1.0_f64), |(low, high), score| {
        (low.min(score.low).min(score.value), high.max(score.high).max(score.value))
    });
    if low.is_finite() && high.is_finite() && high > low { (low, high) } else { (0.0, 1.0) }
}

/// Draws it.
pub(super) fn svg(rows: &[Row]) -> String {
    let (low, high) = range(rows);
    let at = |value: f64| LEFT + (value.clamp(low, high) - low) / (high - low) * WIDTH;
    let mut models: Vec<&str> = Vec::new();
    for row in rows {
        if !models.contains(&row.model.as_str()) {
            models.push(&row.model);
        }
    }
    let mut out = String::new();
    let mut body = String::new();
    let mut y = TOP;
    let mut task = None;
    for row in rows {
        if task != Some(&row.task) {
            task = Some(&row.task);
            y += LINE * 0.4;
            // Writing to a text cannot fail.
            let _ = writeln!(
                body,
                r#"<text x="8" y="{:.1}" font-weight="bold" fill="{GREY}">{}</text>"#,
                y + 5.0,
                escape(&short(&row.task))
            );
            y += LINE;
        }
        let colour =
            models.iter().position(|model| *model == row.model).and_then(|index| COLOURS.get(index % COLOURS.len()));
        let colour = colour.copied().unwrap_or(GREY);
        let _ = writeln!(
            body,
            r#"<text x="20" y="{:.1}" fill="{colour}">{}</text>"#,
            y + 5.0,
            escape(&short(if row.model.is_empty() { "(no model)" } else { &row.model }))
        );
        match &row.score {
            Some(score) => {
                let (from, to, value) = (at(score.low), at(score.high), at(score.value));
                let _ = writeln!(
                    body,
                    r#"<path d="M{from:.1} {y:.1}H{to:.1}M{from:.1} {:.1}v8M{to:.1} {:.1}v8" stroke="{colour}" stroke-width="2" fill="none"/><circle cx="{value:.1}" cy="{y:.1}" r="4.5" fill="{colour}"/>"#,
                    y - 4.0,
                    y - 4.0,
                );
                let _ = writeln!(
                    body,
                    r#"<text x="{:.1}" y="{:.1}" fill="{colour}">{:.3}{}</text>"#,
                    LEFT + WIDTH + 12.0,
                    y + 5.0,
                    score.value,
                    if row.status == "success" { "" } else { " *" }
                );
            }
            None => {
                let _ = writeln!(
                    body,
                    r#"<text x="{LEFT:.1}" y="{:.1}" fill="{GREY}" font-style="italic">{}</text>"#,
                    y + 5.0,
                    escape(&row.status)
                );
            }
        }
        y += LINE;
    }
    let bottom = y + LINE * 0.3;
    let (width, height) = (LEFT + WIDTH + RIGHT, bottom + 46.0);
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="sans-serif" font-size="13" role="img">"#
    );
    let _ = writeln!(out, "<title>Scores with 95 % intervals, by task and model</title>");
    let _ = writeln!(
        out,
        r#"<text x="8" y="22" font-size="15" fill="{GREY}">Score with its 95 % interval, by task and model</text>"#
    );
    for tick in 0..=5 {
        let value = low + (high - low) * f64::from(tick) / 5.0;
        let x = at(value);
        let _ = writeln!(
            out,
            r#"<path d="M{x:.1} {TOP:.1}V{bottom:.1}" stroke="{GREY}" stroke-opacity="0.35"/><text x="{x:.1}" y="{:.1}" text-anchor="middle" fill="{GREY}">{value:.2}</text>"#,
            bottom + 18.0
        );
    }
    out.push_str(&body);
    if rows.iter().any(|row| row.score.is_some() && row.status != "success") {
        let _ = writeln!(
            out,
            r#"<text x="8" y="{:.1}" fill="{GREY}">* of the samples that are finished</text>"#,
            bottom + 36.0
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::super::eval_table::Estimate;
    use super::*;

    fn row(task: &str, model: &str, score: Option<(f64, f64, f64)>) -> Row {
        let score = score.map(|(value, low, high)| Estimate { scorer: "exact".into(), value, stderr: 0.0, low, high });
        let status = if score.is_some() { "success" } else { "refused" };
        Row { score, status: status.into(), ..Row::refused(task, model) }
    }

    #[test]
    fn a_picture_is_the_same_for_the_same_rows_and_holds_no_foreign_markup() {
        let rows = [
            row("</svg><script>alert(1)</script>", "a&b\u{1b}\"'", Some((0.5, 0.25, 0.75))),
            row("long".repeat(40).as_str(), "", None),
        ];
        let picture = svg(&rows);
        assert_eq!(picture, svg(&rows));
        assert!(!picture.contains("<script") && !picture.contains('\u{1b}'), "{picture}");
        assert!(picture.contains("a&amp;b?&quot;&#39;") && picture.contains("refused"), "{picture}");
        assert_eq!(picture.matches("<svg").count(), 1);
        assert_eq!(picture.matches("<circle").count(), 1);
        // 0.5 of the axis from 0 to 1.
        assert!(picture.contains("cx=\"510.0\"") && picture.contains("M405.0 "), "{picture}");
    }

    #[test]
    fn an_axis_goes_as_far_as_the_scores() {
        assert_eq!(range(&[]), (0.0, 1.0));
        assert_eq!(range(&[row("t", "m", Some((30.0, -10.0, 70.0)))]), (-10.0, 70.0));
        assert_eq!(range(&[row("t", "m", Some((f64::NAN, f64::NAN, f64::INFINITY)))]), (0.0, 1.0));
        assert!(svg(&[row("t", "m", Some((30.0, -10.0, 70.0)))]).contains(">70.00</text>"));
    }
}
