//! Any bytes are messages or an error; encoding a decoded message and decoding it again gives the same message.

use wire::{Decoder, Guest, Host, Message, encode};

fn drain<M: Message + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    for piece in bytes.chunks(7) {
        decoder.push(piece);
        loop {
            match decoder.take::<M>() {
                Ok(Some(message)) => {
                    let mut out = Vec::new();
                    encode(&message, &mut out).expect("what was read fits");
                    let mut again = Decoder::new();
                    again.push(&out);
                    assert_eq!(again.take::<M>(), Ok(Some(message)));
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Checks one input.
pub fn frames(bytes: &[u8]) {
    drain::<Guest>(bytes);
    drain::<Host>(bytes);
}
