//! What is made of the scores that one sample has in several epochs.

use serde_json::Value;

use super::worth;
use crate::task::Reducer;

/// One score for several; nothing where nobody can say. Of scores that are worth the same, the first epoch's counts.
pub(super) fn reduce(reducer: Reducer, values: &[&Value]) -> Option<Value> {
    let worths: Vec<f64> = values.iter().map(|value| worth(value)).collect();
    let right = worths.iter().filter(|worth| **worth >= 1.0).count();
    if values.is_empty() {
        return None;
    }
    match reducer {
        Reducer::Mean => Some(number(mean(&worths))),
        Reducer::Median => Some(number(median(worths))),
        Reducer::Mode => most_frequent(values).cloned(),
        Reducer::Max => {
            let best = worths.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            values.iter().find(|value| worth(value) >= best).map(|value| (*value).clone())
        }
        Reducer::AtLeast(least) => Some(Value::from(u8::from(right >= size(least)))),
        Reducer::PassAt(tries) => pass_at(values.len(), right, size(tries)).map(number),
    }
}

fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn number(value: f64) -> Value {
    Value::from(value)
}

#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (0, Some(low), Some(high)) => f64::midpoint(*low, *high),
        (_, _, Some(one)) => *one,
        _ => 0.0,
    }
}

/// The value that is there most often; of several the one that is there first.
pub(super) fn most_frequent<'a>(values: &[&'a Value]) -> Option<&'a Value> {
    let mut counts: Vec<(&Value, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| same(known, value)) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}

/// 1 and 1.0 are one value.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() < f64::EPSILON,
        _ => one == other,
    }
}

/// How likely at least one of `tries` drawn from `total`, of which `right` are right, is right; without a bias. Nothing if
/// there were fewer.
#[expect(clippy::cast_precision_loss, reason = "a count of epochs")]
fn pass_at(total: usize, right: usize, tries: usize) -> Option<f64> {
    if total < tries {
        return None;
    }
    let wrong = total - right;
    if wrong < tries {
        return Some(1.0);
    }
    // All of them wrong: the product of what is left at each draw.
    let none: f64 = (wrong + 1..=total).map(|place| 1.0 - tries as f64 / place as f64).product();
    Some(1.0 - none)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn reduced(reducer: Reducer, values: &[Value]) -> Option<Value> {
        reduce(reducer, &values.iter().collect::<Vec<_>>())
    }

    #[test]
    fn reducers_are_what_their_names_say() {
        let scores = [json!("C"), json!("I"), json!("I"), json!("C")];
        assert_eq!(reduced(Reducer::Mean, &scores), Some(json!(0.5)));
        assert_eq!(reduced(Reducer::Mode, &scores), Some(json!("C")), "of two the first");
        assert_eq!(reduced(Reducer::Mode, &[json!(0), json!("C"), json!("C")]), Some(json!("C")));
        assert_eq!(reduced(Reducer::Max, &[json!(0.2), json!("P"), json!(0.1)]), Some(json!("P")));
        assert_eq!(reduced(Reducer::Median, &[json!(0.9), json!(0.1), json!(0.3)]), Some(json!(0.3)));
        assert_eq!(reduced(Reducer::Median, &scores), Some(json!(0.5)));
        assert_eq!(reduced(Reducer::AtLeast(2), &scores), Some(json!(1)));
        assert_eq!(reduced(Reducer::AtLeast(3), &scores), Some(json!(0)));
        assert_eq!(reduced(Reducer::PassAt(1), &scores), Some(json!(0.5)));
        assert_eq!(reduced(Reducer::PassAt(3), &scores), Some(json!(1.0)));
        assert_eq!(reduced(Reducer::PassAt(5), &scores), None, "fewer than five say nothing about five");
        assert_eq!(reduced(Reducer::Mean, &[]), None);
    }

    proptest! {
        /// Against the definition: of all ways to draw, those without a right one.
        #[test]
        fn pass_at_k_counts_the_draws(total in 1_usize..12, right in 0_usize..12, tries in 1_usize..12) {
            let (right, tries) = (right.min(total), tries.min(total));
            let draws: Vec<u32> = (0_u32..1 << total).filter(|draw| draw.count_ones() as usize == tries).collect();
            let found = draws.iter().filter(|draw| **draw & ((1 << right) - 1) != 0).count();
            #[expect(clippy::cast_precision_loss, reason = "small counts")]
            let share = found as f64 / draws.len() as f64;
            prop_assert!(pass_at(total, right, tries).is_some_and(|value| (value - share).abs() < 1e-9));
        }
    }
}
