//! Layers come plain, as gzip or as zstd; their first bytes say which.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use crate::progress::{Progress, Watched};

/// A window of 128 MiB is the most that the tools of the field make, for layers of this size. In smaller ones it is at most
/// 32 MiB: the decoder's memory is the window's, whatever is in the layer.
const LARGE: u64 = 48 << 20;

/// The plain bytes of a layer's archive; `progress` hears how much of the file was read for them.
pub(crate) fn decode<'a>(mut file: File, progress: &'a dyn Progress) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = [0; 4];
    file.seek(SeekFrom::Start(0))?;
    let count = file.read(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    let length = file.metadata()?.len();
    let file = BufReader::new(Watched::new(file, progress));
    Ok(match &magic[..count] {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::Decoder::with_buffer(file)?;
            decoder.window_log_max(if length < LARGE { 25 } else { 27 })?;
            Box::new(decoder)
        }
        _ => Box::new(file),
    })
}
