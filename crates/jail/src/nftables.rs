//! Redirect rules as one raw netlink batch: table, nat chain, and a rule with the expressions that capture needs.

use crate::attempt::{Refused, Step, check};

const SUBSYSTEM: u16 = 10; // NFNL_SUBSYS_NFTABLES
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const FAMILY_INET: u8 = 1;
const NESTED: u16 = 1 << 15;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// Appends one attribute, padded to four bytes.
fn attribute(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let length = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn attributes(list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in list {
        attribute(&mut out, *kind, payload);
    }
    out
}

fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn number(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// Appends one message: header, `nfgenmsg`, attributes.
fn message(out: &mut Vec<u8>, kind: u16, flags: u16, family: u8, resource: u16, payload: &[u8]) {
    let length = u32::try_from(16 + 4 + payload.len()).unwrap_or(u32::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend((REQUEST | flags).to_ne_bytes());
    out.extend(1_u32.to_ne_bytes()); // sequence
    out.extend(0_u32.to_ne_bytes()); // port
    out.extend([family, 0]);
    out.extend(resource.to_be_bytes());
    out.extend(payload);
}

/// How many messages of the batch ask for an acknowledgement.
const ACKNOWLEDGED: usize = 3;

/// A batch that loads `table inet`, a nat chain on output, and `fib daddr type` followed by `redirect`.
pub(crate) fn batch() -> Vec<u8> {
    const TABLE: &str = "ringfence_probe";
    let hook = attributes(&[(1, number(3)), (2, number((-100_i32).cast_unsigned()))]);
    let fib = attributes(&[(1, number(1)), (2, number(3)), (3, number(2))]);
    let expressions = attributes(&[
        (1 | NESTED, attributes(&[(1, text("fib")), (2 | NESTED, fib)])),
        (1 | NESTED, attributes(&[(1, text("redir")), (2 | NESTED, Vec::new())])),
    ]);
    let mut out = Vec::new();
    message(&mut out, BATCH_BEGIN, 0, 0, SUBSYSTEM, &[]);
    message(&mut out, NEW_TABLE, CREATE | ACK, FAMILY_INET, 0, &attributes(&[(1, text(TABLE))]));
    let chain = attributes(&[(1, text(TABLE)), (3, text("output")), (4 | NESTED, hook), (7, text("nat"))]);
    message(&mut out, NEW_CHAIN, CREATE | ACK, FAMILY_INET, 0, &chain);
    let rule = attributes(&[(1, text(TABLE)), (2, text("output")), (4 | NESTED, expressions)]);
    message(&mut out, NEW_RULE, CREATE | APPEND | ACK, FAMILY_INET, 0, &rule);
    message(&mut out, BATCH_END, 0, 0, SUBSYSTEM, &[]);
    out
}

/// Sends a batch in the current network namespace and waits for its acknowledgements.
pub(crate) fn load(batch: &[u8]) -> Result<(), Refused> {
    // WHY: netlink has no safe form without a dependency, and nothing may be allocated here.
    // SAFETY: every buffer is valid for the length passed with it; the socket dies with the child.
    unsafe {
        let socket = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_NETFILTER);
        check(Step::NetfilterSocket, socket)?;
        check(Step::Rules, i64::try_from(libc::send(socket, batch.as_ptr().cast(), batch.len(), 0)).unwrap_or(-1))?;
        let mut acknowledged = 0;
        while acknowledged < ACKNOWLEDGED {
            let mut buffer = [0_u8; 4096];
            let count = libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0);
            let count = usize::try_from(count).map_err(|_| Refused::last(Step::Rules))?;
            acknowledged += acknowledgements(&buffer[..count])?;
        }
    }
    Ok(())
}

/// Counts the acknowledgements in one datagram; the first that carries an error is that error.
fn acknowledgements(mut datagram: &[u8]) -> Result<usize, Refused> {
    let field = |bytes: &[u8], at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let mut count = 0;
    while let (Some(length), Some(error)) =
        (field(datagram, 0).map(u32::from_ne_bytes), field(datagram, 16).map(i32::from_ne_bytes))
    {
        if error != 0 {
            return Err(Refused::with(Step::Rules, -error));
        }
        count += 1;
        let next = usize::try_from(length).unwrap_or(usize::MAX).next_multiple_of(4).max(20);
        datagram = datagram.get(next..).unwrap_or_default();
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded() {
        assert_eq!(
            attributes(&[(1, text("ab")), (2, number(7))]),
            [7, 0, 1, 0, b'a', b'b', 0, 0, 8, 0, 2, 0, 0, 0, 0, 7]
        );
    }

    #[test]
    fn an_error_in_an_answer_is_an_error() {
        let mut answer = vec![0; 36];
        answer[0] = 36;
        assert_eq!(acknowledgements(&answer).unwrap(), 1);
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(acknowledgements(&answer).unwrap_err().errno, 1);
        assert_eq!(acknowledgements(&answer[..7]).unwrap(), 0);
    }
}
