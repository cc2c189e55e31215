//! Netlink by its bytes: messages, attributes, acknowledgements. A library for it would be larger than what we say.

use std::io;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
pub(crate) const NESTED: u16 = 1 << 15;

/// Appends one attribute, padded to four bytes.
fn attribute(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let length = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
    out.extend(length.to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

pub(crate) fn attributes(list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in list {
        attribute(&mut out, *kind, payload);
    }
    out
}

pub(crate) fn text(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// Netfilter's numbers are big endian.
pub(crate) fn number(value: u32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// Messages that are sent in one piece.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// How many of them ask for an acknowledgement.
    pub(crate) acknowledged: usize,
}

/// Whether the kernel is to answer a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Acknowledged,
    None,
}

impl Batch {
    /// Appends one message: the header, the family's own header, attributes.
    pub(crate) fn message(&mut self, kind: u16, flags: u16, answer: Answer, head: &[u8], payload: &[u8]) {
        let length = u32::try_from(16 + head.len() + payload.len()).unwrap_or(u32::MAX);
        let asked = if answer == Answer::Acknowledged { ACK } else { 0 };
        self.acknowledged += usize::from(answer == Answer::Acknowledged);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((REQUEST | asked | flags).to_ne_bytes());
        self.bytes.extend(1_u32.to_ne_bytes()); // sequence
        self.bytes.extend(0_u32.to_ne_bytes()); // port
        self.bytes.extend(head);
        self.bytes.extend(payload);
    }

    /// Has the kernel answer only the last of the messages that ask for it. What goes wrong before that is answered all the
    /// same, and first.
    pub(crate) fn acknowledge_the_last(&mut self) {
        let mut last: Option<usize> = None;
        let mut at = 0;
        while let Some(Ok(length)) = self.bytes.get(at..at + 4).map(<[u8; 4]>::try_from) {
            // The lower byte of the flags, at 6: this is for little endian, as the filter is.
            if self.bytes.get(at + 6).is_some_and(|flags| flags & 4 != 0)
                && let Some(flags) = last.replace(at + 6).and_then(|before| self.bytes.get_mut(before))
            {
                *flags &= !4;
                self.acknowledged -= 1;
            }
            at += usize::try_from(u32::from_ne_bytes(length)).unwrap_or(usize::MAX).next_multiple_of(4).max(16);
        }
    }
}

/// Opens a socket of this netlink protocol. Allocates nothing.
pub(crate) fn open(protocol: i32) -> io::Result<libc::c_int> {
    // WHY: netlink has no safe form without a dependency, and probes may not allocate.
    // SAFETY: takes plain values.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    if socket == -1 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// Sends a batch in the current network namespace and waits for its acknowledgements. Allocates nothing.
pub(crate) fn exchange(socket: libc::c_int, batch: &Batch) -> io::Result<()> {
    // WHY: as above.
    // SAFETY: every buffer is valid for the length passed with it.
    unsafe {
        if libc::send(socket, batch.bytes.as_ptr().cast(), batch.bytes.len(), 0) == -1 {
            return Err(io::Error::last_os_error());
        }
        let mut acknowledged = 0;
        while acknowledged < batch.acknowledged {
            let mut buffer = [0_u8; 8192];
            let count = libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0);
            let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
            acknowledged += acknowledgements(&buffer[..count])?;
        }
    }
    Ok(())
}

/// Counts the acknowledgements in one datagram; the first that carries an error is that error.
fn acknowledgements(mut datagram: &[u8]) -> io::Result<usize> {
    let field = |bytes: &[u8], at: usize| bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let mut count = 0;
    while let (Some(length), Some(error)) =
        (field(datagram, 0).map(u32::from_ne_bytes), field(datagram, 16).map(i32::from_ne_bytes))
    {
        if error != 0 {
            return Err(io::Error::from_raw_os_error(-error));
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
    fn only_the_last_is_acknowledged() {
        let mut batch = Batch::default();
        for answer in [Answer::Acknowledged, Answer::None, Answer::Acknowledged, Answer::None] {
            batch.message(1, CREATE, answer, &[0; 4], &[]);
        }
        batch.acknowledge_the_last();
        let flags: Vec<u8> = batch.bytes.chunks(20).map(|message| message[6] & 4).collect();
        assert_eq!((batch.acknowledged, flags), (1, vec![0, 0, 4, 0]));
    }

    #[test]
    fn an_error_in_an_answer_is_an_error() {
        let mut answer = vec![0; 36];
        answer[0] = 36;
        assert_eq!(acknowledgements(&answer).unwrap(), 1);
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(acknowledgements(&answer).unwrap_err().raw_os_error(), Some(1));
        assert_eq!(acknowledgements(&answer[..7]).unwrap(), 0);
    }
}
