//! One text per JSON value, so that hashes and signatures mean the same everywhere.

use std::fmt::{self, Write};

use serde_json::{Map, Value};

/// One form per value: no white space, keys sorted. Numbers are as `serde_json` writes them, which reads them back unchanged.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    // Writing to a text cannot fail.
    let _ = write(value, &mut out);
    out
}

/// Writes that form.
pub(crate) fn write(value: &Value, out: &mut impl Write) -> fmt::Result {
    match value {
        Value::Object(map) => write_map(map, out),
        Value::Array(items) => {
            out.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write(item, out)?;
            }
            out.write_char(']')
        }
        scalar => write!(out, "{scalar}"),
    }
}

/// The same of an object.
pub(crate) fn write_map(map: &Map<String, Value>, out: &mut impl Write) -> fmt::Result {
    // Sorted here: `serde_json` keeps insertion order when any crate in the build asks it to.
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    out.write_char('{')?;
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        write!(out, "{}:", Value::from(key.as_str()))?;
        write(value, out)?;
    }
    out.write_char('}')
}
