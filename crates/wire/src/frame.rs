//! Length-bounded frames.

use thiserror::Error;

/// The longest frame: an exec with as many arguments as Linux takes fits well.
pub const MAX_FRAME: usize = 4 << 20;
/// The longest chunk of a stream. Small enough that a control frame never waits long behind one.
pub const MAX_CHUNK: usize = 64 << 10;
/// `length` itself.
const PREFIX: usize = 4;
/// `kind` and `id`.
const HEAD: usize = 5;

/// Why bytes are not a frame. Every one of these ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    #[error("a frame of {0} bytes is longer than {MAX_FRAME}")]
    TooLong(usize),
    /// Too short to have a head.
    #[error("a frame of {0} bytes has no head")]
    TooShort(usize),
    /// A kind that this side does not take.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// A payload that does not decode, or has bytes left over.
    #[error("a frame of kind {0} has a malformed payload")]
    Malformed(u8),
}

/// Something that travels as a frame in one direction.
pub trait Message: Sized {
    /// The frame's kind and id, and its payload appended to `payload`.
    fn write(&self, payload: &mut Vec<u8>) -> (u8, u32);

    /// The message of a frame.
    fn read(kind: u8, id: u32, payload: &[u8]) -> Result<Self, FrameError>;
}

/// Appends `message` as one frame.
///
/// Fails only for a message that would be longer than [`MAX_FRAME`]; `out` is then as it was.
pub fn encode(message: &impl Message, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX + HEAD]);
    let (kind, id) = message.write(out);
    let length = out.len() - start - PREFIX;
    if length > MAX_FRAME {
        out.truncate(start);
        return Err(FrameError::TooLong(length));
    }
    // It fits: MAX_FRAME is far below u32::MAX.
    let prefix = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    out[start..start + PREFIX].copy_from_slice(&prefix);
    out[start + PREFIX] = kind;
    out[start + PREFIX + 1..start + PREFIX + HEAD].copy_from_slice(&id.to_le_bytes());
    Ok(())
}

/// Cuts a byte stream into messages. Holds at most one frame and what was pushed with it.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one. After an error the stream cannot be trusted any more.
    pub fn take<M: Message>(&mut self) -> Result<Option<M>, FrameError> {
        let pending = &self.buffer[self.start..];
        let Some(prefix) = pending.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*prefix)).unwrap_or(usize::MAX);
        if length > MAX_FRAME {
            return Err(FrameError::TooLong(length));
        }
        if length < HEAD {
            return Err(FrameError::TooShort(length));
        }
        let Some(frame) = pending.get(PREFIX..PREFIX + length) else { return Ok(None) };
        let (head, payload) = frame.split_at(HEAD);
        let id = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let message = M::read(head[0], id, payload)?;
        self.start += PREFIX + length;
        Ok(Some(message))
    }

    /// How many bytes are held back for a frame that is not whole yet.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }
}
