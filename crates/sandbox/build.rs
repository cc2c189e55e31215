//! Builds the two static programs that go into and beside a sandbox, so that a plain `cargo build` is enough.
//!
//! They need other flags than everything else (static, small, no unwinding), so they are built by a cargo of their own in
//! a target directory of their own, and embedded by `src/programs.rs`. Programs with mutations have yet another: no mistake there
//! can put one into an ordinary build.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [(&str, &str); 2] = [("guest", "ringfence-guest"), ("jail", "ringfence-zygote")];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let root = manifest.ancestors().nth(2).ok_or("no workspace")?;
    let target = env::var("TARGET")?;
    // OUT_DIR is target/<profile>/build/<package>/out: one directory for the embedded programs of all profiles.
    let mutations = env::var_os("CARGO_FEATURE_MUTATIONS").is_some();
    let place = if mutations { "embedded-mutations" } else { "embedded" };
    let target_dir = out.ancestors().nth(4).unwrap_or(&out).join(place);
    for watched in ["crates/guest", "crates/jail", "crates/mutation", "crates/wire", "Cargo.toml"] {
        rerun_if_changed(&root.join(watched));
    }
    for (package, program) in PROGRAMS {
        let features: &[&str] = if mutations { &["--features", "mutations"] } else { &[] };
        build(root, (package, program), features, &target, &target_dir)?;
        std::fs::copy(target_dir.join(&target).join("embedded").join(program), out.join(program))?;
    }
    Ok(())
}

fn rerun_if_changed(path: &Path) {
    emit(&format!("cargo::rerun-if-changed={}", path.display()));
}

/// A build script speaks to cargo on standard output.
fn emit(line: &str) {
    use std::io::Write as _;
    // Cargo reads until we end; if it does not, there is nobody to tell.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn build(
    root: &Path,
    (package, program): (&str, &str),
    features: &[&str],
    target: &str,
    target_dir: &Path,
) -> Result<(), Box<dyn Error>> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--quiet", "--profile", "embedded", "--target", target]);
    cargo.args(["--package", package, "--bin", program, "--target-dir"]).arg(target_dir).args(features);
    // Flags, wrappers and settings of the outer build are not meant for these programs.
    for (name, _) in env::vars_os() {
        let inherited = name.to_string_lossy();
        let about_flags = inherited.contains("RUSTFLAGS") || inherited.starts_with("CARGO_PROFILE_");
        if about_flags || inherited.ends_with("_WRAPPER") || inherited == "CARGO_BUILD_TARGET" {
            cargo.env_remove(&name);
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static\u{1f}-Crelocation-model=static");
    let status = cargo.status()?;
    if status.success() { Ok(()) } else { Err(format!("building {program} failed: {status}").into()) }
}
