//! Whatever is changed of a run is found: any byte of its log, its chain or its receipt.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::common::{Kind, Made, made};
use log::Format;
use receipt::{CheckError, Require, SigningKey, Trust, check, issue};
use serde_json::json;

/// Changes every byte, one after the other, and sees that each is found, with the key and without.
fn every_byte_is_found(made: &Made, path: &Path) {
    let good = fs::read(path).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    for (at, byte) in (0_u64..).zip(&good) {
        // The smallest change, upper and lower case, and bytes that are no text.
        for change in [0x01, 0x20, 0x80] {
            file.write_all_at(&[byte ^ change], at).unwrap();
            assert!(made.check().is_err(), "byte {at} of {} ({:?} ^ {change})", path.display(), char::from(*byte));
        }
        assert!(made.check_alone().is_err(), "byte {at} of {} without the key", path.display());
        file.write_all_at(&[*byte], at).unwrap();
    }
    made.check().unwrap();
}

fn cut_or_longer_is_found(made: &Made, path: &Path) {
    let good = fs::read(path).unwrap();
    let lengths = (0..good.len()).step_by(37).chain([good.len() - 1]);
    for length in lengths {
        fs::write(path, &good[..length]).unwrap();
        assert!(made.check().is_err() && made.check_alone().is_err(), "{} cut at {length}", path.display());
    }
    for more in [&b"\n"[..], b" ", b"\0", b"{}\n", &good] {
        for both in [[&good, more].concat(), [more, &good].concat()] {
            fs::write(path, both).unwrap();
            assert!(made.check().is_err() && made.check_alone().is_err(), "{} and {more:?}", path.display());
        }
    }
    fs::write(path, good).unwrap();
    made.check().unwrap();
}

fn all(format: Format) {
    let made = made(&Kind { format, ..Kind::default() });
    made.check_alone().unwrap();
    for path in [&made.log, &made.chain, &made.receipt] {
        every_byte_is_found(&made, path);
        cut_or_longer_is_found(&made, path);
    }
}

#[test]
fn any_changed_byte_of_a_zipped_log_its_chain_or_its_receipt_is_found() {
    all(Format::Eval);
}

#[test]
fn any_changed_byte_of_a_plain_log_its_chain_or_its_receipt_is_found() {
    all(Format::Json);
}

#[test]
fn last_lines_of_the_chain_that_are_gone_are_found() {
    let made = made(&Kind::default());
    let lines: Vec<String> = fs::read_to_string(&made.chain).unwrap().lines().map(|line| format!("{line}\n")).collect();
    for kept in 0..lines.len() {
        fs::write(&made.chain, lines[..kept].concat()).unwrap();
        assert!(matches!(made.check(), Err(CheckError::Audit(_))), "{kept} lines");
    }
    fs::remove_file(&made.chain).unwrap();
    assert!(matches!(made.check_alone(), Err(CheckError::Audit(_))));
    rustix::fs::mknodat(rustix::fs::CWD, &made.chain, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(made.check_alone(), Err(CheckError::Audit(_))), "nobody waits for a pipe");
}

#[test]
fn a_receipt_that_was_taken_away_is_missed() {
    let made = made(&Kind::default());
    fs::remove_file(&made.receipt).unwrap();
    assert!(matches!(made.check_alone(), Err(CheckError::Missing { .. })));
    // A log that was rewritten to expect none is found by whoever names a key, or wants a receipt.
    let other = crate::common::log(&made.place.path().join("others"), &Kind { expected: false, ..Kind::default() }, "");
    check(&other, &Trust::Nobody, Require::AsTheLogSays).unwrap();
    assert!(matches!(check(&other, &Trust::Nobody, Require::Receipt), Err(CheckError::Missing { .. })));
    for trust in [Trust::Key(made.key.public()), Trust::Id(made.key.public().id())] {
        assert!(matches!(check(&other, &trust, Require::AsTheLogSays), Err(CheckError::Missing { .. })));
    }
    issue(&other, &made.key).unwrap();
    assert!(matches!(check(&other, &Trust::Nobody, Require::Receipt), Err(CheckError::Unexpected(_))));
}

#[test]
fn receipts_that_were_exchanged_are_found() {
    let one = made(&Kind::default());
    let other = made(&Kind { metadata: json!({"another": true}), ..Kind::default() });
    fs::copy(&other.receipt, &one.receipt).unwrap();
    assert!(matches!(one.check(), Err(CheckError::OtherKey { .. })));
    assert!(one.check_alone().is_err());
    // By the same key, for a log of the same name.
    let (log, chain) = (fs::read(&one.log).unwrap(), fs::read(&one.chain).unwrap());
    fs::copy(&other.log, &one.log).unwrap();
    fs::copy(&other.chain, &one.chain).unwrap();
    issue(&one.log, &one.key).unwrap();
    fs::write(&one.log, log).unwrap();
    fs::write(&one.chain, chain).unwrap();
    assert!(matches!(one.check(), Err(CheckError::Subject(_))));
}

#[test]
fn a_log_of_another_name_is_not_the_one_that_was_signed() {
    let made = made(&Kind::default());
    let moved = made.log.with_file_name("other.eval");
    fs::copy(&made.log, &moved).unwrap();
    fs::copy(&made.chain, log::audit::Audit::beside(&moved)).unwrap();
    fs::copy(&made.receipt, receipt::beside(&moved)).unwrap();
    assert!(matches!(check(&moved, &Trust::Nobody, Require::AsTheLogSays), Err(CheckError::Subject(_))));
}

#[test]
fn another_key_is_found() {
    let made = made(&Kind::default());
    let other = SigningKey::create(&made.place.path().join("other")).unwrap();
    let by_other = |trust| check(&made.log, &trust, Require::AsTheLogSays);
    assert!(matches!(by_other(Trust::Key(other.public())), Err(CheckError::OtherKey { .. })));
    assert!(matches!(by_other(Trust::Id(other.public().id())), Err(CheckError::OtherKey { .. })));
    // Signed anew by somebody else: right in itself, but not who the log says.
    issue(&made.log, &other).unwrap();
    assert!(matches!(made.check_alone(), Err(CheckError::Differ(_))));
    assert!(matches!(made.check(), Err(CheckError::OtherKey { .. })));
}

#[test]
fn a_receipt_that_is_a_link_or_a_pipe_is_not_read() {
    let made = made(&Kind::default());
    let elsewhere = made.place.path().join("elsewhere");
    fs::rename(&made.receipt, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &made.receipt).unwrap();
    assert!(matches!(made.check(), Err(CheckError::Read { .. })));
    fs::remove_file(&made.receipt).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &made.receipt, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(made.check(), Err(CheckError::Read { .. })));
    fs::remove_file(&made.receipt).unwrap();
    fs::File::create(&made.receipt).unwrap().set_len(17 << 20).unwrap();
    assert!(matches!(made.check(), Err(CheckError::Read { .. })));
}
