//! The network log: a thread of its own writes it, so that whoever reads it slowly cannot hold up the run.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use egress::Record;

use super::network::NetworkError;

/// Records that wait to be written.
const WAITING: usize = 16_384;
/// How long the rest may take at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// A log that is being written.
pub(super) struct Log {
    path: PathBuf,
    records: mpsc::SyncSender<Record>,
    writing: std::thread::JoinHandle<io::Result<()>>,
}

impl Log {
    pub(super) fn open(path: &Path) -> Result<Self, NetworkError> {
        let failed = |source| NetworkError::Log { path: path.to_owned(), source };
        let file = File::create(path).map_err(failed)?;
        let (records, received) = mpsc::sync_channel::<Record>(WAITING);
        let writing = std::thread::Builder::new().name("network-log".into()).spawn(move || write(file, &received));
        Ok(Self { path: path.to_owned(), records, writing: writing.map_err(failed)? })
    }

    /// Never waits.
    pub(super) fn write(&self, record: Record) -> Result<(), NetworkError> {
        match self.records.try_send(record) {
            Ok(()) => Ok(()),
            Err(mpsc::TrySendError::Full(_)) => Err(NetworkError::LogStalled { path: self.path.clone() }),
            Err(mpsc::TrySendError::Disconnected(_)) => Err(NetworkError::Log {
                path: self.path.clone(),
                source: io::Error::other("it can no longer be written"),
            }),
        }
    }

    /// Waits for the rest, for a while.
    pub(super) async fn close(self) -> Result<(), NetworkError> {
        let Self { path, records, writing } = self;
        drop(records);
        let deadline = Instant::now() + FAREWELL;
        while !writing.is_finished() {
            if Instant::now() > deadline {
                // The thread ends with us.
                return Err(NetworkError::LogStalled { path });
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let written = writing.join().unwrap_or_else(|_| Err(io::Error::other("its writer failed")));
        written.map_err(|source| NetworkError::Log { path, source })
    }
}

fn write(file: File, records: &mpsc::Receiver<Record>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    while let Ok(record) = records.recv() {
        serde_json::to_writer(&mut file, &record)?;
        file.write_all(b"\n")?;
        // Whoever follows the file sees a line when it happens.
        file.flush()?;
    }
    file.flush()
}
