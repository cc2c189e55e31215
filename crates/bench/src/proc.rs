//! Numbers in files of /proc.

use std::error::Error;
use std::str::FromStr;

/// The first number of the line that begins so.
pub(crate) fn number<N: FromStr<Err: Error + 'static>>(text: &str, line: &str) -> Result<N, Box<dyn Error>> {
    let rest = text.lines().find_map(|found| found.strip_prefix(line)).ok_or("no such line in /proc")?;
    Ok(rest.split_whitespace().next().ok_or("an empty line in /proc")?.parse()?)
}
