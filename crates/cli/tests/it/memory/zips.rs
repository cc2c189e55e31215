//! Zips by hand, with what no writer of logs writes.

/// An entry: its name, its bytes as they are packed, how (0 plain, 93 zstd), its length and checksum when unpacked.
pub(crate) struct Entry {
    name: &'static str,
    packed: Vec<u8>,
    method: u16,
    size: u64,
    crc: u32,
}

fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|index| (0..8).fold(index, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 }))
        .collect();
    !bytes.fold(!0, |crc, byte| table[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8))
}

/// An entry of this text.
pub(crate) fn entry(name: &'static str, text: &[u8]) -> Entry {
    let packed = zstd::encode_all(text, 3).unwrap();
    Entry { name, packed, method: 93, size: text.len() as u64, crc: crc(text.iter().copied()) }
}

/// An entry that asks its reader for a window of two gigabytes.
pub(crate) fn wide(name: &'static str, text: &[u8]) -> Entry {
    let packed = zstd::encode_all(text, 1).unwrap();
    // Magic, a descriptor without anything, a window of 2^31; then the blocks of the frame that was made.
    let descriptor = packed[4];
    let single = descriptor & 0x20 != 0;
    let header = 5 + usize::from(!single) + [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
    let wide = [&packed[..4], &[0, (31 - 10) << 3], &packed[header..]].concat();
    Entry { packed: wide, ..entry(name, text) }
}

fn numbers(out: &mut Vec<u8>, short: &[u16], long: &[u64], rest: &[u16]) {
    out.extend(short.iter().flat_map(|number| number.to_le_bytes()));
    out.extend(long.iter().flat_map(|number| u32::try_from(*number).unwrap().to_le_bytes()));
    out.extend(rest.iter().flat_map(|number| number.to_le_bytes()));
}

/// A zip whose directory lists each entry so often, under other names from the second time on.
pub(crate) fn zip(entries: &[Entry], times: usize) -> Vec<u8> {
    let (mut out, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    for entry in entries {
        let (offset, length) = (out.len() as u64, u16::try_from(entry.name.len()).unwrap());
        let sizes = [u64::from(entry.crc), entry.packed.len() as u64, entry.size];
        out.extend(b"PK\x03\x04");
        numbers(&mut out, &[63, 0x800, entry.method, 0, 33], &sizes, &[length, 0]);
        out.extend(entry.name.as_bytes());
        out.extend(&entry.packed);
        for time in 0..times {
            let name = if time == 0 { entry.name.to_owned() } else { format!("samples/{time}_epoch_1.json") };
            let length = u16::try_from(name.len()).unwrap();
            directory.extend(b"PK\x01\x02");
            numbers(&mut directory, &[0x33f, 63, 0x800, entry.method, 0, 33], &sizes, &[length, 0, 0, 0, 0]);
            numbers(&mut directory, &[], &[0o100_644 << 16, offset], &[]);
            directory.extend(name.as_bytes());
            count += 1;
        }
    }
    let start = out.len() as u64;
    out.extend(&directory);
    out.extend(b"PK\x05\x06");
    numbers(&mut out, &[0, 0, count, count], &[directory.len() as u64, start], &[0]);
    out
}
