//! Approval policies: any text is a policy or a list of problems with places.

/// Checks one input.
pub fn policy(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Err(problems) = eval::Policy::parse("policy.yaml", text, &["own_tool".to_owned()]) {
        assert!(!problems.problems.is_empty());
    }
}
