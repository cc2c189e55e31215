//! Images that only those who are logged in may fetch.

use std::path::Path;
use std::process::Command;

use crate::common::{self, Registry, layout};
use crate::docker::daemon::{among, docker};

/// `someone:a>password~?`, with signs that the two alphabets of base64 write differently.
const LOGIN: &str = "c29tZW9uZTphPnBhc3N3b3Jkfj8=";
const WHO: &str = "Basic c29tZW9uZTphPnBhc3N3b3Jkfj8=";

/// An image of one static program, in a registry for someone only.
fn registry(place: &Path) -> Registry {
    let programs = Path::new("/bin/busybox").parent().unwrap();
    let packed =
        Command::new("tar").arg("-C").arg(programs).args(["-cf", "layer.tar", "busybox"]).current_dir(place).output();
    assert!(packed.unwrap().status.success());
    Registry::serve_to(&layout(place, &["layer.tar"], "{}"), Some(WHO))
}

fn logged_in(place: &Path, server: &str, login: &str) -> String {
    let config = place.join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.json"), format!(r#"{{"auths":{{"{server}":{{"auth":"{login}"}}}}}}"#)).unwrap();
    config.to_str().unwrap().to_owned()
}

fn run(place: &Path, config: &str, image: &str) -> (i32, String, String) {
    let mut command = common::command(place);
    command.args(["run", "--provider", "docker", "--image", image, "--", "/busybox", "echo", "fetched"]);
    let output = command.env("DOCKER_CONFIG", config).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_image_is_fetched_with_the_login_for_its_registry_and_with_no_other() {
    let _among = among();
    let place = tempfile::tempdir().unwrap();
    let registry = registry(place.path());
    let server = registry.name.split('/').next().unwrap();
    // Nobody, somebody else, and someone elsewhere.
    let config = logged_in(place.path(), "elsewhere.example", LOGIN);
    let (code, _, err) = run(place.path(), &config, &registry.name);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("pull image"), "{err}");
    let config = logged_in(place.path(), server, "b3RoZXI6cGFzc3dvcmQ=");
    let (code, _, err) = run(place.path(), &config, &registry.name);
    assert_eq!(code, 4, "{err}");
    let config = logged_in(place.path(), server, LOGIN);
    let (code, out, err) = run(place.path(), &config, &registry.name);
    assert_eq!((code, out.as_str()), (0, "fetched\n"), "{err}");
    assert!(!err.contains("a>password") && !err.contains(LOGIN), "{err}");
    docker(&["rmi", &registry.name]);

    // A build that begins with it.
    let directory = place.path().join("build");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("Dockerfile"), format!("FROM {}\nENV A=b\n", registry.name)).unwrap();
    let image = format!("build:{}", directory.display());
    let (code, out, err) = run(place.path(), &config, &image);
    assert_eq!((code, out.as_str()), (0, "fetched\n"), "{err}");
    // What cannot be read is said where it is needed.
    let config = logged_in(place.path(), server, "not a login");
    let (code, _, err) = run(place.path(), &config, &format!("{server}/demo:2"));
    assert_eq!(code, 4, "{err}");
    assert!(err.contains(&format!("docker login {server}")), "the hint: {err}");
}
