//! Numbers in words: which an answer names, and whether they are the target's.
//!
//! As Inspect's `match(numeric=True)`: signs of currency, commas and marks of formatting are no part of a number, and two are
//! the same when their first five digits are. Numerals that are not digits (Chinese, Roman) are not read.

use crate::task::Location;

/// What may stand around a number in a sentence. Not `<`, `>`, `~` and `=`: a bound is not the number itself.
const AROUND: &[char] = &['!', '?', ':', ';', '(', ')', '[', ']', '{', '}', '\'', '"', '`'];
/// What separates groups of digits, beside commas, which are gone by then.
const GROUPS: &[char] =
    &['，', '﹐', '、', '٬', '\u{a0}', '\u{202f}', '\u{2009}', '\u{2007}', '\u{2008}', '\'', '’', 'ʼ', '＇'];
const MINUS: &[char] = &['-', '−', '﹣', '－'];
const PLUS: &[char] = &['+', '＋', '﹢'];
const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
/// Fractions that are one character.
const FRACTIONS: [(char, f64, f64); 19] = [
    ('½', 1.0, 2.0),
    ('⅓', 1.0, 3.0),
    ('⅔', 2.0, 3.0),
    ('¼', 1.0, 4.0),
    ('¾', 3.0, 4.0),
    ('⅕', 1.0, 5.0),
    ('⅖', 2.0, 5.0),
    ('⅗', 3.0, 5.0),
    ('⅘', 4.0, 5.0),
    ('⅙', 1.0, 6.0),
    ('⅚', 5.0, 6.0),
    ('⅐', 1.0, 7.0),
    ('⅛', 1.0, 8.0),
    ('⅜', 3.0, 8.0),
    ('⅝', 5.0, 8.0),
    ('⅞', 7.0, 8.0),
    ('⅑', 1.0, 9.0),
    ('⅒', 1.0, 10.0),
    ('↉', 0.0, 3.0),
];
/// The zeros of all scripts that count in tens; nine more digits follow each.
const ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0,
    0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60,
    0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];
/// Longer words are no numbers.
const LONGEST: usize = 400;

/// Whether an answer names the target's number there; and the number that it names. `None` if the target is none.
pub(super) fn matches(answer: &str, target: &str, location: Location) -> Option<(bool, String)> {
    let wanted = shown(read(&cleaned(target.trim()), AROUND)?);
    let text = cleaned(answer.trim());
    let mut named = text.split_whitespace().filter_map(|word| read(word, AROUND)).map(shown);
    let found = match location {
        Location::Begin => named.next().unwrap_or_default(),
        Location::End => named.next_back().unwrap_or_default(),
        // Exact stays exact: nothing may stand around it.
        Location::Exact => read(&text, &[]).map_or(text, shown),
        Location::Any => {
            let found = named.any(|number| number == wanted);
            return Some((found, if found { wanted } else { answer.trim().to_owned() }));
        }
    };
    Some((found == wanted, found))
}

/// Without currencies, commas, marks of formatting and full stops.
fn cleaned(text: &str) -> String {
    let is_mark = |c: char| matches!(c, '$' | ',' | '£' | '€' | '*' | '_');
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        // `\$20` is how TeX writes `$20`.
        let escapes = c == '\\' && characters.peek().is_some_and(|next| is_mark(*next));
        if !escapes && !is_mark(c) {
            kept.push(c);
        }
    }
    let mut out = String::with_capacity(kept.len());
    let mut characters = kept.chars().peekable();
    while let Some(c) = characters.next() {
        let ends = c == '.' && characters.peek().is_none_or(|next| digit(*next).is_none());
        if !ends {
            out.push(c);
        }
    }
    out
}

/// A character's digit, in any script.
fn digit(c: char) -> Option<char> {
    let code = u32::from(c);
    let zero = ZEROS.iter().rev().find(|zero| **zero <= code)?;
    char::from_digit(code - zero, 10)
}

/// A word that is a finite number, whatever stands around it.
fn read(word: &str, around: &[char]) -> Option<f64> {
    let word = word.trim_matches(around);
    if word.len() > LONGEST {
        return None;
    }
    plain(word).or_else(|| in_any_script(word))
}

/// What Python's `float` reads, but for infinities and the like.
pub(super) fn plain(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.len() > LONGEST {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match digit(c) {
            Some(c) => out.push(c),
            // Between two digits it separates groups.
            None if c == '_' => {
                let follows = characters.peek().is_some_and(|next| digit(*next).is_some());
                if !follows || before.and_then(digit).is_none() {
                    return None;
                }
            }
            None if matches!(c, '.' | '+' | '-' | 'e' | 'E') => out.push(c),
            None => return None,
        }
        before = Some(c);
    }
    out.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Signs, digits and fractions of any script, and an exponent in superscript: `−2½`, `１２`, `3²`.
fn in_any_script(word: &str) -> Option<f64> {
    let mut text = word.trim();
    let mut negative = false;
    while let Some(sign) = text.chars().next().filter(|c| MINUS.contains(c) || PLUS.contains(c)) {
        negative ^= MINUS.contains(&sign);
        text = text[sign.len_utf8()..].trim_start();
    }
    let (base, exponent) = split_exponent(text)?;
    let value = with_fraction(base)?;
    let value = if negative { -value } else { value };
    let value = exponent.map_or(value, |exponent| value.powi(exponent));
    value.is_finite().then_some(value)
}

/// The exponent in superscript at the end; none where nothing would be left before it.
fn split_exponent(text: &str) -> Option<(&str, Option<i32>)> {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || GROUPS.contains(&c));
    let without = text.trim_end_matches(SUPERSCRIPT);
    if without.len() == text.len() {
        return Some((text, None));
    }
    let (base, negative) = match without.strip_suffix('⁻') {
        Some(base) => (base, true),
        None => (without.strip_suffix('⁺').unwrap_or(without), false),
    };
    let raised: String = text[without.len()..]
        .chars()
        .filter_map(|c| SUPERSCRIPT.iter().position(|known| *known == c))
        .filter_map(|digit| char::from_digit(u32::try_from(digit).ok()?, 10))
        .collect();
    // `²` alone is a two.
    if base.trim().is_empty() {
        return (raised.len() == 1).then_some((text, None));
    }
    let exponent: i32 = raised.parse().ok()?;
    Some((base.trim_end(), Some(if negative { -exponent } else { exponent })))
}

fn with_fraction(text: &str) -> Option<f64> {
    let mut alone = text.chars();
    if let (Some(c), None) = (alone.next(), alone.next())
        && let Some(raised) = SUPERSCRIPT.iter().position(|known| *known == c)
    {
        return u32::try_from(raised).ok().map(f64::from);
    }
    let fraction = |c: char| FRACTIONS.iter().find(|(known, ..)| *known == c).map(|(_, over, under)| over / under);
    let Some((at, c)) = text.char_indices().find(|(_, c)| fraction(*c).is_some()) else { return grouped(text) };
    let after = &text[at + c.len_utf8()..];
    if !after.chars().all(|c| c.is_whitespace() || GROUPS.contains(&c)) {
        return None;
    }
    let head = text[..at].trim();
    let whole = if head.is_empty() { 0.0 } else { grouped(head)? };
    Some(whole + fraction(c)?)
}

/// Digits with groups, one decimal mark and an exponent.
fn grouped(text: &str) -> Option<f64> {
    let mut out = String::with_capacity(text.len());
    let mut raised = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            'e' | 'E' if !raised && !out.is_empty() => {
                raised = true;
                out.push('e');
                if let Some(sign) = characters.next_if(|c| MINUS.contains(c) || PLUS.contains(c)) {
                    out.push(if MINUS.contains(&sign) { '-' } else { '+' });
                }
            }
            '.' | '٫' | '．' => out.push('.'),
            c if c.is_whitespace() || GROUPS.contains(&c) => {}
            c => out.push(digit(c)?),
        }
    }
    out.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// A number with its first five digits, as C's `%.5g` writes it.
fn shown(number: f64) -> String {
    let scientific = format!("{number:.4e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(power) = exponent.parse::<i32>() else { return scientific };
    let trimmed = |text: &str| {
        let bare = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        bare.to_owned()
    };
    if (-4..5).contains(&power) {
        let places = usize::try_from(4 - power).unwrap_or(0);
        trimmed(&format!("{number:.places$}"))
    } else {
        let sign = if power < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits), power.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(answer: &str, target: &str, location: Location) -> Option<(bool, String)> {
        matches(answer, target, location)
    }

    #[test]
    fn numbers_are_found_where_they_are_looked_for() {
        let end = |answer, target| named(answer, target, Location::End);
        assert_eq!(end("It is $1,234.50.", "1234.5"), Some((true, "1234.5".into())));
        assert_eq!(end("25", "5"), Some((false, "25".into())), "a number is not its last digit");
        assert_eq!(end("first 3 then 4", "3"), Some((false, "4".into())));
        assert_eq!(end(r"\$20", "20"), Some((true, "20".into())));
        assert_eq!(end("about ~42", "42"), Some((false, String::new())), "a guess is not the number");
        assert_eq!(end("60%", "60"), Some((false, String::new())));
        assert_eq!(end("x", "sixty"), None, "a target in words is compared in words");
        assert_eq!(named("3 then 4", "3", Location::Begin), Some((true, "3".into())));
        assert_eq!(named("1 2 3", "2", Location::Any), Some((true, "2".into())));
        assert_eq!(named("(42)", "42", Location::Exact), Some((false, "(42)".into())));
        assert_eq!(named("4.2e1", "42", Location::Exact), Some((true, "42".into())));
    }

    #[test]
    fn numbers_of_other_scripts_are_numbers() {
        for (word, number) in [
            ("−2½", -2.5),
            ("１２", 12.0),
            ("3²", 9.0),
            ("1'000", 1000.0),
            ("٣٫٥", 3.5),
            ("2⁻²", 0.25),
            ("⅔³", 8.0 / 27.0),
        ] {
            assert!(read(word, AROUND).is_some_and(|found| (found - number).abs() < 1e-12), "{word}");
        }
        for word in ["", "nan", "inf", "1.2.3", "--", "½½", "1e", "²²", "_1", "1__0"] {
            assert_eq!(read(word, &[]), None, "{word}");
        }
    }

    #[test]
    fn five_digits_are_shown() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (123_456.0, "1.2346e+05"),
            (0.000_1, "0.0001"),
            (0.000_01, "1e-05"),
            (12_345.0, "12345"),
            (99_999.9, "1e+05"),
            (2.5, "2.5"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(shown(number), text);
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read(answer in any::<String>(), target in "[-+−0-9.,eE½²_' ]{0,12}") {
            for location in [Location::Begin, Location::End, Location::Any, Location::Exact] {
                let _ = matches(&answer, &target, location);
            }
        }

        #[test]
        fn a_number_is_its_own_match(number in -1e9..1e9_f64) {
            let text = format!("so it is {number}");
            prop_assert!(matches(&text, &number.to_string(), Location::End).is_some_and(|(right, _)| right));
        }
    }
}
