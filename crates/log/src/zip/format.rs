//! The bytes of a zip: PKWARE's APPNOTE 6.3.10, with zip64 where a number does not fit.

/// Not compressed.
pub(crate) const STORED: u16 = 0;
/// As most zips; only read.
pub(crate) const DEFLATE: u16 = 8;
/// What we write, and Inspect.
pub(crate) const ZSTD: u16 = 93;

pub(crate) const LOCAL: u32 = 0x0403_4b50;
pub(crate) const CENTRAL: u32 = 0x0201_4b50;
pub(crate) const END: u32 = 0x0605_4b50;
pub(crate) const END64: u32 = 0x0606_4b50;
pub(crate) const LOCATOR64: u32 = 0x0706_4b50;

/// A number of 32 bits that says: look in the zip64 field.
pub(crate) const ELSEWHERE: u32 = u32::MAX;

/// Version 6.3, which has zstd.
const VERSION: u16 = 63;
/// Names are UTF-8.
const UTF8: u16 = 0x0800;
/// 1980-01-01, the beginning of time for zips: equal contents make equal files.
const DATE: u16 = 0x0021;

/// One entry, as the directory has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) method: u16,
    pub(crate) crc: u32,
    pub(crate) compressed: u64,
    pub(crate) size: u64,
    /// Where its local header is.
    pub(crate) offset: u64,
}

fn short(out: &mut Vec<u8>, numbers: &[u16]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn fits(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ELSEWHERE)
}

/// The zip64 field for those of the numbers that do not fit.
fn large(numbers: &[u64]) -> Vec<u8> {
    let large: Vec<u8> = numbers.iter().filter(|n| fits(**n) == ELSEWHERE).flat_map(|n| n.to_le_bytes()).collect();
    let mut field = Vec::new();
    if !large.is_empty() {
        // At most three numbers.
        short(&mut field, &[1, u16::try_from(large.len()).unwrap_or_default()]);
        field.extend(large);
    }
    field
}

/// What stands before an entry's bytes.
pub(crate) fn local_header(entry: &Entry) -> Vec<u8> {
    // Here zip64 has both sizes or none.
    let fit = fits(entry.size) != ELSEWHERE && fits(entry.compressed) != ELSEWHERE;
    let (compressed, size) = if fit { (fits(entry.compressed), fits(entry.size)) } else { (ELSEWHERE, ELSEWHERE) };
    let mut extra = Vec::new();
    if !fit {
        short(&mut extra, &[1, 16]);
        extra.extend(entry.size.to_le_bytes());
        extra.extend(entry.compressed.to_le_bytes());
    }
    let mut out = LOCAL.to_le_bytes().to_vec();
    short(&mut out, &[VERSION, UTF8, entry.method, 0, DATE]);
    for number in [entry.crc, compressed, size] {
        out.extend(number.to_le_bytes());
    }
    short(&mut out, &[length(&entry.name), u16::try_from(extra.len()).unwrap_or_default()]);
    out.extend(entry.name.as_bytes());
    out.extend(extra);
    out
}

/// An entry's line in the directory.
pub(crate) fn central_header(entry: &Entry) -> Vec<u8> {
    let extra = large(&[entry.size, entry.compressed, entry.offset]);
    let mut out = CENTRAL.to_le_bytes().to_vec();
    // Made on Unix (3), where names have `/`.
    short(&mut out, &[0x0300 | VERSION, VERSION, UTF8, entry.method, 0, DATE]);
    for number in [entry.crc, fits(entry.compressed), fits(entry.size)] {
        out.extend(number.to_le_bytes());
    }
    short(&mut out, &[length(&entry.name), u16::try_from(extra.len()).unwrap_or_default(), 0, 0, 0]);
    // A plain file that its owner may write and all may read.
    out.extend(0o100_644_u32.wrapping_shl(16).to_le_bytes());
    out.extend(fits(entry.offset).to_le_bytes());
    out.extend(entry.name.as_bytes());
    out.extend(extra);
    out
}

/// What a zip ends with: where its directory is.
pub(crate) fn end(count: u64, start: u64, size: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let few = u16::try_from(count).unwrap_or(u16::MAX);
    if few == u16::MAX || fits(start) == ELSEWHERE || fits(size) == ELSEWHERE {
        out.extend(END64.to_le_bytes());
        out.extend(44_u64.to_le_bytes());
        short(&mut out, &[0x0300 | VERSION, VERSION]);
        out.extend([0; 8]);
        for number in [count, count, size, start] {
            out.extend(number.to_le_bytes());
        }
        out.extend(LOCATOR64.to_le_bytes());
        out.extend([0; 4]);
        out.extend((start + size).to_le_bytes());
        out.extend(1_u32.to_le_bytes());
    }
    out.extend(END.to_le_bytes());
    short(&mut out, &[0, 0, few, few]);
    out.extend(fits(size).to_le_bytes());
    out.extend(fits(start).to_le_bytes());
    short(&mut out, &[0]);
    out
}

/// Names were checked when they came in ([`crate::name::check`]).
fn length(name: &str) -> u16 {
    u16::try_from(name.len()).unwrap_or_default()
}
