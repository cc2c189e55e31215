//! Whoever asks: the same owner sees the same sandboxes, and nobody else's.

/// Whose a sandbox is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A user of this machine, by the kernel's word.
    User(u32),
    /// Whoever has the token with this number in the file.
    Token(usize),
}
