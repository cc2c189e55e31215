//! Images through the command: a few static programs, in layers, run with what the image says.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::path::Path;

use crate::common::{Registry, configuration, is_root, layout, ringfence, sh};
use image::Digest;

const CONFIG: &str = r#"{"Env":["PATH=/bin","COLOUR=blue"],"User":"app","WorkingDir":"/tmp",
    "Entrypoint":["/bin/busybox"],"Cmd":["cat","/etc/motd"]}"#;

/// An archive as `docker save` writes it: Busybox below, a change above.
fn saved(place: &Path) -> String {
    sh(
        place,
        "mkdir -p base/bin base/etc base/tmp base/var/cache top/etc top/var/cache
         busybox=$(command -v busybox); cp \"$busybox\" base/bin/busybox
         for name in sh id cat ls env pwd stat; do ln -s busybox base/bin/$name; done
         printf 'root:x:0:0::/root:/bin/sh\\napp:x:7:7::/tmp:/bin/sh\\n' >base/etc/passwd
         echo old >base/etc/removed; echo old >base/var/cache/old; ln -s /nowhere base/etc/resolv.conf
         echo hello >top/etc/motd; : >top/etc/.wh.removed; : >top/var/cache/.wh..wh..opq; echo new >top/var/cache/new
         tar --owner=0 --group=0 -C base -cf base.tar . && tar --owner=0 --group=0 -C top -cf top.tar .",
    );
    let digest = |name: &str| Digest::of(&std::fs::read(place.join(name)).unwrap());
    let config = configuration(&[digest("base.tar"), digest("top.tar")], CONFIG);
    std::fs::write(place.join("config.json"), config).unwrap();
    std::fs::write(
        place.join("manifest.json"),
        r#"[{"Config":"config.json","RepoTags":["demo:1"],"Layers":["base.tar","top.tar"]}]"#,
    )
    .unwrap();
    sh(place, "tar -cf saved.tar config.json manifest.json base.tar top.tar");
    format!("archive:{}", place.join("saved.tar").display())
}

#[test]
fn an_image_runs_as_it_says() {
    let place = tempfile::tempdir().unwrap();
    let image = saved(place.path());
    // A plain user has one id only: there, nobody but root can be anybody.
    let user = if is_root() { vec![] } else { vec!["--user", "0"] };
    let run = |command: &[&str]| {
        let arguments = [&["run", "--image", &image][..], &user, &["--"], command].concat();
        let (code, out, err) = ringfence(place.path(), &arguments);
        assert_eq!(code, 0, "{err}");
        out
    };
    let said = run(&["sh", "-c", "id -u; pwd; echo $COLOUR; cat /etc/motd; ls /etc /var/cache"]);
    let uid = if is_root() { "7" } else { "0" };
    assert_eq!(said, format!("{uid}\n/tmp\nblue\nhello\n/etc:\nmotd\npasswd\nresolv.conf\n\n/var/cache:\nnew\n"));
    // What one run writes, the next does not see.
    let arguments = ["run", "--image", &image, "--user", "0", "--", "sh", "-c", "echo x >/etc/motd; cat /etc/motd"];
    assert_eq!(ringfence(place.path(), &arguments).1, "x\n");
    assert_eq!(run(&["cat", "/etc/motd"]), "hello\n");
    // Without a command its own, and that only then.
    assert_eq!(ringfence(place.path(), &["run", "--image", &image, "--user", "0"]).1, "hello\n");
    let (_, out, _) =
        ringfence(place.path(), &["run", "--image", &image, "--user", "0", "--no-entrypoint", "--", "/bin/pwd"]);
    assert_eq!(out, "/tmp\n");
}

#[test]
fn the_store_is_listed_inspected_and_collected() {
    let place = tempfile::tempdir().unwrap();
    let image = saved(place.path());
    let (code, digest, err) = ringfence(place.path(), &["image", "import", &image]);
    assert_eq!(code, 0, "{err}");
    assert!(digest.trim().parse::<Digest>().is_ok(), "{digest}");
    let (_, out, _) = ringfence(place.path(), &["image", "list"]);
    assert!(out.contains(&image) && out.contains("2 layers"), "{out}");
    let (_, out, _) = ringfence(place.path(), &["image", "inspect", &image]);
    assert!(out.contains("COLOUR=blue") && out.contains(digest.trim()), "{out}");
    let (_, out, _) = ringfence(place.path(), &["image", "inspect", digest.trim()]);
    assert!(out.contains(digest.trim()), "by its digest too: {out}");
    assert_eq!(ringfence(place.path(), &["image", "gc"]).1, "0 layers and 0 unfinished imports removed\n");
    assert_eq!(ringfence(place.path(), &["image", "remove", &image]).0, 0);
    assert_eq!(ringfence(place.path(), &["image", "gc"]).1, "2 layers and 0 unfinished imports removed\n");
    let (code, _, err) = ringfence(place.path(), &["image", "inspect", &image]);
    assert_eq!(code, 2);
    assert!(err.contains("no image") && err.contains("hint"), "{err}");
}

#[test]
fn damaged_and_absent_images_are_errors() {
    let place = tempfile::tempdir().unwrap();
    let image = saved(place.path());
    sh(place.path(), "echo damage >>top.tar; tar -cf saved.tar config.json manifest.json base.tar top.tar");
    let (code, _, err) = ringfence(place.path(), &["run", "--image", &image, "--", "id"]);
    assert_eq!(code, 2);
    assert!(err.contains("should be sha256:") && err.contains("hint"), "{err}");
    let docker = ["run", "--image", "docker:no such", "--", "id"];
    let (code, _, err) = ringfence(place.path(), &docker);
    assert_eq!(code, 4);
    assert!(err.contains("Docker daemon"), "{err}");
}

#[test]
fn run_pulls_what_the_store_does_not_have() {
    let place = tempfile::tempdir().unwrap();
    saved(place.path());
    let registry = Registry::serve(&layout(place.path(), &["base.tar", "top.tar"], CONFIG));
    let run = |image: &str| {
        let (code, out, err) =
            ringfence(place.path(), &["run", "--image", image, "--user", "0", "--", "cat", "/etc/motd"]);
        assert_eq!((code, out.as_str()), (0, "hello\n"), "{err}");
    };
    run(&registry.name);
    assert_eq!(registry.asked(), 4, "a manifest, a configuration and two layers");
    run(&registry.name);
    let (_, out, _) = ringfence(place.path(), &["--json", "image", "inspect", &registry.name]);
    let digest = out.split('"').find(|text| text.parse::<Digest>().is_ok()).unwrap();
    run(&format!("{}@{digest}", registry.name));
    run(digest);
    assert_eq!(registry.asked(), 0, "what is here is not asked for");
    let (code, ..) = ringfence(place.path(), &["image", "pull", &registry.name]);
    assert_eq!(code, 0);
    assert_eq!(registry.asked(), 2, "a pull asks what the name means now; the layers are here");
    // A document's image is brought in the same way.
    ringfence(place.path(), &["image", "remove", &registry.name]);
    let document = place.path().join("ringfence.yaml");
    std::fs::write(&document, format!("profile: T0.H1.N2\nimage: {}\napproval: dev\n", registry.name)).unwrap();
    let arguments = ["run", "--profile", document.to_str().unwrap(), "--user", "0", "--", "cat", "/etc/motd"];
    let (code, out, err) = ringfence(place.path(), &arguments);
    assert_eq!((code, out.as_str()), (0, "hello\n"), "{err}");
    assert_eq!(registry.asked(), 2);
}

#[test]
fn what_cannot_be_pulled_is_an_error_and_what_is_refused_is_not_pulled() {
    let place = tempfile::tempdir().unwrap();
    saved(place.path());
    let registry = Registry::serve(&layout(place.path(), &["base.tar", "top.tar"], CONFIG));
    let missing = registry.name.replace("demo", "other");
    let unknown = format!("sha256:{}", "0".repeat(64));
    for (image, profile, code, says) in [
        (missing.as_str(), "T0.H1.N2", 4, "check the name, the tag and the digest"),
        // A port that nobody listens on: the one below all that are given out.
        ("localhost:1/demo:1", "T0.H1.N2", 4, "cannot reach `localhost:1`"),
        ("localhost:1/demo:1", "T0.H1.N2", 4, "hint: check the name of the registry"),
        ("Demo", "T0.H1.N2", 2, "hint: write `demo`"),
        (&unknown, "T0.H1.N2", 2, "see `ringfence image list`"),
        (&registry.name, "T2.H1.N2", 3, "grants no arbitrary execution"),
    ] {
        let (found, _, err) = ringfence(place.path(), &["run", "--profile", profile, "--image", image, "--", "id"]);
        assert_eq!(found, code, "{image}: {err}");
        assert!(err.contains(says), "{image}: {err}");
        assert!(code == 3 || err.contains(&format!("no image `{image}` in the store")), "{image}: {err}");
    }
    assert_eq!(registry.asked(), 1, "only the one that it does not have");
}

#[test]
fn progress_is_for_terminals_only() {
    let place = tempfile::tempdir().unwrap();
    saved(place.path());
    let registry = Registry::serve(&layout(place.path(), &["base.tar", "top.tar"], CONFIG));
    let (code, _, err) = ringfence(place.path(), &["image", "pull", &registry.name]);
    assert_eq!((code, err.as_str()), (0, ""));
    // script(1) gives it a terminal.
    let mut on_terminal = std::process::Command::new("script");
    let shown = crate::common::command(&place.path().join("other"));
    let line = format!("{} image pull {}", shown.get_program().to_str().unwrap(), registry.name);
    on_terminal
        .args(["-qec", &line, "/dev/null"])
        .envs(shown.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = on_terminal.env("TERM", "xterm").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // A layer of a few bytes is over before it would be drawn again.
    assert!(said.contains("fetching layer 1 of 2") && said.contains("MiB, "), "{said}");
}

#[test]
fn a_directory_that_a_layer_does_not_list_keeps_its_rights() {
    let place = tempfile::tempdir().unwrap();
    saved(place.path());
    sh(
        place.path(),
        "chmod 1777 base/tmp; chmod 700 base/var; tar --owner=0 --group=0 -C base -cf base.tar .
         echo x >top/tmp-x; tar --owner=0 --group=0 --transform 's,^tmp-x$,tmp/x,;s,^etc/motd$,var/cache/motd,' \\
             -C top -cf top.tar tmp-x etc/motd",
    );
    let path = layout(place.path(), &["base.tar", "top.tar"], CONFIG);
    let image = format!("oci:{}", path.display());
    let script = "cat /tmp/x /var/cache/motd; stat -c '%a %n' /tmp /var /var/cache";
    let arguments = ["run", "--image", &image, "--user", "0", "--", "sh", "-c", script];
    let (code, out, err) = ringfence(place.path(), &arguments);
    assert_eq!((code, out.as_str()), (0, "x\nhello\n1777 /tmp\n700 /var\n755 /var/cache\n"), "{err}");
}
