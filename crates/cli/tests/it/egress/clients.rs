//! Real programs, unchanged: they find a resolver and connections as anywhere, and only what is listed.

use std::path::PathBuf;
use std::process::Command;

use crate::egress::net::{Ended, HeldNet, Net, net, sh, write};

/// A directory with the testnet's authority, to be mounted at /ca.
fn authority(net: &Net) -> String {
    let directory = net.directory.path().join("ca");
    let _ = std::fs::create_dir(&directory);
    std::fs::copy(net.testnet.ca(), directory.join("ca.pem")).unwrap();
    format!("{}:/ca", directory.display())
}

/// Runs a script inside with these names listed; the variables by which programs take another authority are set.
fn with_authority(net: &Net, allow: &[&str], script: &str) -> Ended {
    let mount = authority(net);
    let mut arguments = vec!["--profile", "T0.H1.N1", "--mount", &mount];
    for variable in [
        "SSL_CERT_FILE=/ca/ca.pem",
        "REQUESTS_CA_BUNDLE=/ca/ca.pem",
        "GIT_SSL_CAINFO=/ca/ca.pem",
        "NODE_EXTRA_CA_CERTS=/ca/ca.pem",
        "PIP_CERT=/ca/ca.pem",
        "HOME=/tmp",
    ] {
        arguments.extend(["--env", variable]);
    }
    for rule in allow {
        arguments.extend(["--allow", rule]);
    }
    net.run(&arguments, &sh(script))
}

/// Runs a program of the host to prepare what is served.
fn prepare(net: &HeldNet, script: &str) {
    let status = Command::new("sh").args(["-euc", script]).current_dir(net.www()).status().unwrap();
    assert!(status.success(), "{script}");
}

/// The same request to a name that is not listed does not get out.
fn only_listed(net: &HeldNet, script: &str) {
    net.testnet.forget().unwrap();
    let ended = with_authority(net, &["unrelated.example.org"], script);
    assert_eq!(net.seen(), [], "{ended:?}");
    assert_ne!(ended.code, 0, "{ended:?}");
    ended.recorded("name_not_listed");
}

#[test]
fn curl() {
    let net = net();
    for scheme in ["http", "https"] {
        let script = format!("curl -sS -m 10 --cacert /ca/ca.pem {scheme}://www.example.org/canary");
        let ended = with_authority(&net, &["www.example.org"], &script);
        assert_eq!(ended.out, "canary www.example.org\n", "{ended:?}");
        assert!(ended.err.contains("network: reached www.example.org (1)"), "{ended:?}");
        only_listed(&net, &script);
    }
}

#[test]
fn python_urllib() {
    let net = net();
    let script = r#"/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen("https://www.example.org/canary", timeout=10).read().decode(), end="")'"#;
    assert_eq!(with_authority(&net, &["www.example.org"], script).out, "canary www.example.org\n");
    only_listed(&net, script);
}

#[test]
fn python_requests() {
    let net = net();
    let script = r#"/usr/bin/python3 -c 'import requests as r; s = r.Session(); print([s.get("https://www.example.org/canary", timeout=10).text for _ in range(3)])'"#;
    let ended = with_authority(&net, &["www.example.org"], script);
    assert_eq!(ended.out.matches("canary www.example.org").count(), 3, "{ended:?}");
    only_listed(&net, script);
}

#[test]
fn pip() {
    let net = net();
    prepare(
        &net,
        r#"mkdir -p simple/demo && /usr/bin/python3 - <<'END'
import zipfile
with zipfile.ZipFile("simple/demo/demo-1.0-py3-none-any.whl", "w") as z:
    z.writestr("demo.py", "answer = 42\n")
    z.writestr("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    z.writestr("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("demo-1.0.dist-info/RECORD", "demo.py,,\ndemo-1.0.dist-info/METADATA,,\ndemo-1.0.dist-info/WHEEL,,\ndemo-1.0.dist-info/RECORD,,\n")
END"#,
    );
    let script = "/usr/bin/python3 -m pip -q --no-cache-dir --disable-pip-version-check --retries 0 install --root-user-action=ignore --target /tmp/site --index-url https://packages.example.org/simple/ demo && PYTHONPATH=/tmp/site /usr/bin/python3 -c 'import demo; print(demo.answer)'";
    let ended = with_authority(&net, &["packages.example.org"], script);
    assert_eq!(ended.out.trim(), "42", "{ended:?}");
    only_listed(&net, script);
}

#[test]
fn git() {
    let net = net();
    prepare(
        &net,
        "rm -rf repo.git work && git init -q work && cd work && echo hello >file && git add file && \
         git -c user.name=t -c user.email=t@example.org commit -qm first && cd .. && \
         git clone -q --bare work repo.git && cd repo.git && git update-server-info && rm -rf ../work",
    );
    let script = "git clone -q https://git.example.org/repo.git /tmp/clone && cat /tmp/clone/file";
    let ended = with_authority(&net, &["git.example.org"], script);
    assert_eq!(ended.out, "hello\n", "{ended:?}");
    only_listed(&net, script);
}

#[test]
fn apt() {
    let net = net();
    prepare(
        &net,
        "mkdir -p apt/deb/DEBIAN && cd apt && printf 'Package: demo\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: T <t@example.org>\\nDescription: demo\\n' >deb/DEBIAN/control && \
         dpkg-deb -b --root-owner-group deb demo.deb >/dev/null && \
         { cat deb/DEBIAN/control; printf 'Filename: ./demo.deb\\nSize: %s\\nSHA256: %s\\n' \"$(stat -c %s demo.deb)\" \"$(sha256sum demo.deb | cut -d' ' -f1)\"; } >Packages && rm -r deb",
    );
    let script = "cd /tmp && mkdir -p st/lists/partial ca/archives/partial && touch status && \
        echo 'deb [trusted=yes] http://packages.example.org/apt ./' >list && \
        O='-q -o Dir::Etc::SourceList=/tmp/list -o Dir::Etc::SourceParts=/dev/null -o Dir::State=/tmp/st -o Dir::State::status=/tmp/status -o Dir::Cache=/tmp/ca -o APT::Sandbox::User=root -o Acquire::Retries=0 -o APT::Update::Error-Mode=any' && \
        apt-get $O update >&2 && apt-get $O download demo >&2 && ls *.deb";
    let ended = with_authority(&net, &["packages.example.org"], script);
    assert!(ended.out.contains("demo_1.0_all.deb"), "{ended:?}");
    only_listed(&net, script);
}

#[test]
fn node_fetch() {
    let net = net();
    let script = r#"node -e 'fetch("https://www.example.org/canary").then(r => r.text()).then(t => process.stdout.write(t)).catch(e => { console.error(e); process.exit(1) })'"#;
    let ended = with_authority(&net, &["www.example.org"], script);
    assert_eq!(ended.out, "canary www.example.org\n", "{ended:?}");
    only_listed(&net, script);
}

/// A static program that does not use the C library's resolver.
fn go_program(net: &HeldNet) -> PathBuf {
    let directory = net.directory.path().join("go");
    let program = directory.join("fetch");
    if !program.exists() {
        std::fs::create_dir_all(&directory).unwrap();
        write(
            &directory.join("main.go"),
            "package main\nimport (\"fmt\"; \"io\"; \"net/http\"; \"os\")\nfunc main() {\n r, err := http.Get(os.Args[1])\n if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }\n b, _ := io.ReadAll(r.Body)\n fmt.Print(string(b))\n}\n",
        );
        let built = Command::new("go")
            .args(["build", "-o", "fetch", "main.go"])
            .current_dir(&directory)
            .env("CGO_ENABLED", "0")
            .status()
            .unwrap();
        assert!(built.success());
    }
    directory
}

#[test]
fn static_go_binary() {
    let net = net();
    let directory = go_program(&net);
    let (mount, authority) = (format!("{}:/go", directory.display()), authority(&net));
    let run = |name: &str| {
        let arguments = [
            "--profile",
            "T0.H1.N1",
            "--mount",
            &mount,
            "--mount",
            &authority,
            "--env",
            "SSL_CERT_FILE=/ca/ca.pem",
            "--allow",
            "www.example.org",
        ];
        net.run(&arguments, &["/go/fetch".to_owned(), format!("https://{name}/canary")])
    };
    let ended = run("www.example.org");
    assert_eq!(ended.out, "canary www.example.org\n", "{ended:?}");
    net.testnet.forget().unwrap();
    let ended = run("evil.example.net");
    assert_eq!(net.seen(), []);
    assert_ne!(ended.code, 0);
    ended.recorded("name_not_listed");
}
