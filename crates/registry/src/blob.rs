//! Blobs: streamed into a file, and verified on the way.

use std::fs::File;
use std::io::{self, Write as _};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::digest::{Digest, Digester};
use crate::document::Descriptor;
use crate::error::PullError;
use crate::places::Reach;
use crate::reference::Reference;
use crate::registry::Registry;
use crate::transport::Answer;

/// How many pieces may wait for the disk.
const WAITING: usize = 8;

impl Registry {
    /// Downloads a blob of a reference's repository into a file, where it stands, and verifies size and digest.
    ///
    /// `progress` hears how many bytes have come. After any error the file holds what must not be used; the same is true
    /// when the future is dropped, after which a last few pieces may still be written.
    pub async fn blob(
        &self,
        reference: &Reference,
        descriptor: &Descriptor,
        file: &mut File,
        progress: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), PullError> {
        let Descriptor { digest: expected, size, .. } = *descriptor;
        if size > self.max_layer {
            return Err(PullError::BlobTooLarge { digest: expected, size, limit: self.max_layer });
        }
        let file = file.try_clone().map_err(PullError::Write)?;
        let answer = self.fetch(reference, &format!("blobs/{expected}"), "*/*", Reach::Anywhere).await?;
        if let Some(found) = answer.length().filter(|found| *found != size) {
            return Err(PullError::SizeDiffers { digest: expected, expected: size, found });
        }
        // Digesting and writing block; they have a thread of their own, which ends when `sender` does.
        let (sender, pieces) = mpsc::channel(WAITING);
        let writer = tokio::task::spawn_blocking(move || write(pieces, file));
        let received = receive(answer, descriptor, sender, progress).await;
        let written = writer.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let found = match (received, written) {
            (_, Err(error)) => return Err(PullError::Write(error)),
            (Err(error), Ok(_)) => return Err(error),
            (Ok(()), Ok(found)) => found,
        };
        if found != expected {
            return Err(PullError::DigestDiffers { expected, found });
        }
        Ok(())
    }
}

/// Hands an answer's bytes to the writer, up to the first that is too much.
async fn receive(
    mut answer: Answer,
    descriptor: &Descriptor,
    sender: mpsc::Sender<Bytes>,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), PullError> {
    let differs = |found| PullError::SizeDiffers { digest: descriptor.digest, expected: descriptor.size, found };
    let mut received = 0_u64;
    while let Some(chunk) = answer.chunk().await? {
        received = received.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        if received > descriptor.size {
            return Err(differs(received));
        }
        if sender.send(chunk).await.is_err() {
            // The writer has failed, and says why itself.
            return Ok(());
        }
        progress(received);
    }
    if received == descriptor.size { Ok(()) } else { Err(differs(received)) }
}

fn write(mut pieces: mpsc::Receiver<Bytes>, mut file: File) -> io::Result<Digest> {
    let mut digester = Digester::new();
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
        digester.update(&piece);
    }
    file.flush()?;
    Ok(digester.finish())
}
