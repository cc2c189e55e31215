//! The name server of a world: few names, and everything below `forbidden`.

use super::{ZONE, address_of};

const HEADER: usize = 12;
const NO_SUCH_NAME: u8 = 3;
const A: u16 = 1;

/// The answer to a query; `None` for what is none.
pub(super) fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (name, kind, end) = question(query)?;
    let label = name.strip_suffix(ZONE).and_then(|rest| rest.strip_suffix('.'));
    let address = label.and_then(|label| address_of(label.rsplit('.').next().unwrap_or(label)));
    let mut reply = query.get(..end)?.to_vec();
    // A reply, recursion available; one question; what follows in a query is not repeated.
    let code = if address.is_some() { 0 } else { NO_SUCH_NAME };
    let answers = u8::from(address.is_some() && kind == A);
    for (at, byte) in
        [(2, 0x81), (3, 0x80 | code), (4, 0), (5, 1), (6, 0), (7, answers), (8, 0), (9, 0), (10, 0), (11, 0)]
    {
        *reply.get_mut(at)? = byte;
    }
    if let Some(address) = address.filter(|_| answers == 1) {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend(address.octets());
    }
    Some(reply)
}

/// The name of the only question in lower case, its kind, and where it ends.
fn question(query: &[u8]) -> Option<(String, u16, usize)> {
    let mut at = HEADER;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        match length {
            0 => break,
            1..=63 => labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase()),
            // Nobody compresses a question.
            _ => return None,
        }
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    query.get(at + 3)?;
    Some((labels.join("."), kind, at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes;

    #[test]
    fn known_names_have_an_address_and_others_do_not_exist() {
        let ask = |name: &str, kind| answer(&bytes::query(name, kind)).unwrap();
        let allowed = ask("Allowed.canary.example.org", bytes::A);
        assert_eq!(bytes::address(&allowed), address_of("allowed"));
        assert_eq!(bytes::address(&ask("x.y.forbidden.canary.example.org", bytes::A)), address_of("forbidden"));
        assert_eq!(ask("nobody.canary.example.org", bytes::A)[3] & 15, NO_SUCH_NAME);
        assert_eq!(ask("allowed.canary.example.org", bytes::TXT)[7], 0);
        assert_eq!(answer(&[0; 13]), None);
        assert_eq!(answer(&[]), None);
    }
}
