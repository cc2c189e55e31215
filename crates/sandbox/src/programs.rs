//! The static programs that `build.rs` made.

/// Lives in every sandbox.
pub const GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ringfence-guest"));
/// Creates sandboxes; the way into containers of other engines ([`jail::enter`]).
pub const ZYGOTE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ringfence-zygote"));

#[cfg(test)]
mod tests {
    #[test]
    fn the_guest_is_small() {
        assert!(super::GUEST.len() <= 2 << 20, "{} bytes", super::GUEST.len());
    }
}
