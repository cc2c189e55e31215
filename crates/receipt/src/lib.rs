//! Receipts: what a run was, in a statement that is signed after its log is closed and lies beside it.
//!
//! [`issue`] reads the closed log and its audit chain, says what is there in an in-toto Statement ([`Statement`]), and signs it
//! as a DSSE envelope ([`Envelope`]) with an ed25519 key ([`SigningKey`]). [`check`] reads all three again, says what is asserted
//! and by which key, or what is wrong. While a run goes on, [`add_checkpoint`] signs the head of its chain. `docs/receipts.md` has the format.

mod check;
mod checkpoint;
mod envelope;
mod file;
mod gather;
mod issue;
mod key;
mod key_file;
mod missing;
mod pem;
mod run;
mod statement;
mod tally;

pub use check::{Asserted, CheckError, Checked, Require, Trust, check};
pub use checkpoint::{Checkpoint, add_checkpoint, checkpoints_beside, last_checkpoint};
pub use envelope::{Envelope, EnvelopeError};
pub use gather::GatherError;
pub use issue::{IssueError, beside, is_receipt, issue};
pub use key::{KeyId, NoKeyId, PublicKey, SigningKey};
pub use key_file::{KeyError, KeyProblem};
pub use missing::{Missing, MissingSample};
pub use run::{
    Chain, DroppedSample, Image, Kept, KeptSample, Network, Observed, Profiles, Residual, Run, Samples, Scored, Totals,
    Verdicts, Vouched, VouchedBy,
};
pub use statement::{Digests, Predicate, Signer, Statement, StatementError, Subject};
