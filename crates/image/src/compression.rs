//! Layers come plain, as gzip or as zstd; their first bytes say which.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

/// The plain bytes of a layer's archive.
pub(crate) fn decode(mut file: File) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 4];
    file.seek(SeekFrom::Start(0))?;
    let count = file.read(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(match &magic[..count] {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::Decoder::new(file)?;
            // A window of 128 MiB is the most that the tools of the field make.
            decoder.window_log_max(27)?;
            Box::new(decoder)
        }
        _ => Box::new(BufReader::new(file)),
    })
}
