//! Receipts: any bytes are refused, or are an envelope, or a statement, in its one form.

use receipt::{Envelope, Statement};

/// Checks one input.
pub fn envelope(bytes: &[u8]) {
    if let Ok(envelope) = Envelope::parse(bytes) {
        assert_eq!(envelope.to_bytes(), bytes);
    }
    if let Ok(statement) = Statement::parse(bytes) {
        assert_eq!(statement.to_bytes(), bytes);
    }
}
