//! Attacks on a captured network, each named by its attack, through the command as a user runs it.
//!
//! Each probe is first shown to reach its target without the control: from the runner's own namespace. Then the same probe
//! runs inside: nothing of it may reach any server, and a record must say so wherever the mechanism can record. By
//! default as root; with `RINGFENCE_AS=UID` the command runs as that user; with `RINGFENCE_PROVIDER=docker` sandboxes are
//! containers of the daemon `DOCKER_HOST`, of the image `RINGFENCE_IMAGE`, and with `RINGFENCE_SERVICES` set the probes run
//! in one of three services; with `RINGFENCE_CAPTURE=relayed` the guest relays what programs send; with
//! `RINGFENCE_ALSO_N2` set every probe is tried without any network too.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at its own set-up")]

mod addresses;
mod answers;
mod asked;
mod bytes;
mod clients;
mod escapes;
mod floods;
mod http;
mod names;
mod net;
mod phases;
mod tls;
mod web;
