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

    #[test]
    fn only_a_build_with_mutations_has_programs_with_them() {
        let has_marker = |program: &[u8]| {
            let marker = mutation::MARKER.as_bytes();
            program.windows(marker.len()).any(|window| window == marker)
        };
        for program in [super::GUEST, super::ZYGOTE] {
            assert_eq!(has_marker(program), cfg!(feature = "mutations"));
        }
    }
}
