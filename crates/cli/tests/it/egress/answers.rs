//! Answers of a resolver that is not on our side.

use std::time::{Duration, Instant};

use crate::egress::bytes::get;
use crate::egress::net::{HeldNet, Running, net, tcp};

/// A listed name whose answer leads where nothing may go: the address is never connected to.
fn never_connected(name: &str, direct: Option<&str>, reason: &str) {
    let net = net();
    let request = get(name, "/canary");
    if let Some(direct) = direct {
        net.reaches(&tcp(direct, 80, &request), direct, 80);
    }
    let ended = net.inside(&[name], &tcp(name, 80, &request));
    assert_eq!(net.arrived(), [], "{ended:?}");
    assert!(net.seen().iter().any(|seen| seen.name == name), "the gateway did ask");
    let record = ended.recorded(reason);
    assert_eq!((&record["verdict"], &record["name"]), (&"refused".into(), &name.into()));
    assert!(ended.out.starts_with("HTTP/1.1 403 "), "{ended:?}");
}

/// A server at an address of the runner itself; shown to be reached without the control.
fn serve(net: &HeldNet, address: &str) -> Running {
    let program = r"my $l = IO::Socket::IP->new(LocalHost => $ARGV[0], LocalPort => 80, Listen => 5, ReuseAddr => 1) or die; while (my $c = $l->accept) { print $c qq(HTTP/1.0 200 OK\r\n\r\nprivate) }";
    let mut command = net.testnet.command("perl");
    let server = Running(command.args(["-MIO::Socket::IP", "-e", program, address]).spawn().unwrap());
    let probe = tcp(address, 80, &get("loop.example.org", "/"));
    let deadline = Instant::now() + Duration::from_secs(5);
    while !net.direct(&probe).contains("private") {
        assert!(Instant::now() < deadline, "the probe works without the control");
    }
    server
}

#[test]
fn answer_loopback() {
    let net = net();
    let _server = serve(&net, "127.0.0.1");
    for name in ["loop.example.org", "zero.example.org", "mapped.example.org"] {
        let ended = net.inside(&[name], &tcp(name, 80, &get(name, "/")));
        assert!(!ended.out.contains("private"), "{name}: {ended:?}");
        assert_eq!(ended.records.iter().filter(|record| record["verdict"] == "refused").count(), 1, "{ended:?}");
    }
}

#[test]
fn answer_v4mapped_loopback() {
    never_connected("mapped.example.org", None, "answer_transition");
}

#[test]
fn answer_private() {
    never_connected("private.example.org", Some("10.66.0.10"), "answer_private");
    never_connected("private2.example.org", Some("192.168.77.10"), "answer_private");
    never_connected("shared.example.org", Some("100.64.0.10"), "answer_private");
}

#[test]
fn private_answers_are_a_rule_of_their_own() {
    let net = net();
    let scratch = net.scratch();
    let document = scratch.path().join("site.yaml");
    crate::egress::net::write(
        &document,
        "profile: T0.H1.N1\nnetwork:\n  allow_domains: [private.example.org, private2.example.org]\n  allow_private_answers: [private.example.org]\n",
    );
    let arguments = ["--profile", document.to_str().unwrap()];
    let ended = net.run(&arguments, &tcp("private.example.org", 80, &get("private.example.org", "/canary")));
    assert!(ended.out.ends_with("canary private.example.org\n"), "{ended:?}");
    net.run(&arguments, &tcp("private2.example.org", 80, &get("private2.example.org", "/"))).recorded("answer_private");
}

#[test]
fn answer_metadata() {
    never_connected("meta.example.org", Some("169.254.169.254"), "answer_metadata");
}

#[test]
fn answer_runner_address() {
    let server = serve(&net(), "93.184.214.2");
    never_connected("runner.example.org", None, "answer_own");
    drop(server);
}

/// An address of the runner's interface, until it is dropped: its prefix makes the servers neighbours of the runner.
struct Attached(Vec<String>);

impl Attached {
    fn new(net: &crate::egress::net::Net, address: &str) -> Self {
        let ip = |what: &str| {
            let mut command = net.testnet.command("ip");
            command.args(["address", what, address, "dev", "rf1"]);
            command
        };
        // Without a route for its prefix: a server there is reached as before, with and without the control.
        let mut add = ip("add");
        add.arg("noprefixroute");
        if address.contains(':') {
            // Deprecated, so that it is not chosen as a source: the servers have no route back to it.
            add.args(["nodad", "preferred_lft", "0"]);
        }
        assert!(add.status().unwrap().success());
        let delete = ip("delete");
        let words = std::iter::once(delete.get_program()).chain(delete.get_args());
        Self(words.map(|word| word.to_str().unwrap().to_owned()).collect())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = std::process::Command::new(&self.0[0]).args(&self.0[1..]).status();
    }
}

#[test]
fn a_neighbour_with_a_public_address_is_refused_unless_its_range_is_listed() {
    let net = net();
    for (address, range, name, server) in [
        ("93.184.215.200/24", "93.184.215.0/24", "packages.example.org", "93.184.215.11"),
        ("2606:2800:220:1::200/64", "2606:2800:220:1::/64", "v6only.example.org", "2606:2800:220:1::10"),
    ] {
        let probe = tcp(name, 80, &get(name, "/canary"));
        let ended = net.inside(&[name], &probe);
        assert!(ended.out.ends_with(&format!("canary {name}\n")), "not yet a neighbour: {ended:?}");
        let attached = Attached::new(&net, address);
        net.reaches(&tcp(server, 80, &get(name, "/canary")), server, 80);
        let ended = net.inside(&[name], &probe);
        assert_eq!(net.arrived(), [], "{ended:?}");
        ended.recorded("answer_on_link");
        // Without a list too, by its number.
        let everything = ["--profile", "T0.H1.N0", "--justification", "a test"];
        let ended = net.run(&everything, &tcp(server, 80, &get(name, "/canary")));
        assert_eq!(net.arrived(), [], "{ended:?}");
        ended.recorded("answer_on_link");
        let scratch = net.scratch();
        let document = scratch.path().join("site.yaml");
        let rules = |more: &str| format!("profile: T0.H1.N1\nnetwork:\n  allow_domains: [{name}]\n  {more}\n");
        crate::egress::net::write(&document, &rules(&format!("allow_private_answers: [{name}]")));
        let arguments = ["--profile", document.to_str().unwrap()];
        net.run(&arguments, &probe).recorded("answer_on_link");
        assert_eq!(net.arrived(), [], "private answers are not public ones");
        crate::egress::net::write(&document, &rules(&format!("allow_cidr: [\"{range}\"]")));
        let ended = net.run(&arguments, &probe);
        assert!(ended.out.ends_with(&format!("canary {name}\n")), "{ended:?}");
        drop(attached);
        net.testnet.forget().unwrap();
    }
}

/// There is no translator here that would turn these into the private host; that they are not even tried can be shown.
#[test]
fn answer_nat64_private() {
    never_connected("nat64.example.org", None, "answer_transition");
    never_connected("sixtofour.example.org", None, "answer_transition");
}

#[test]
fn of_mixed_answers_only_the_public_one_is_used() {
    let net = net();
    let name = "mixed.example.org";
    for _ in 0..3 {
        let ended = net.inside(&[name], &tcp(name, 80, &get(name, "/canary")));
        assert!(ended.out.ends_with("canary mixed.example.org\n"), "{ended:?}");
    }
    assert!(net.arrived().iter().all(|seen| seen.address.to_string() == "93.184.215.10"));
}

#[test]
fn rebinding_upstream() {
    let net = net();
    let name = "rebind.example.org";
    net.reaches(&tcp("10.66.0.10", 80, &get(name, "/canary")), "10.66.0.10", 80);
    // The answer changes from one lookup to the next; what was judged is what is connected to.
    let script =
        format!("for i in 1 2 3 4 5 6; do curl -sS -m 5 -o /dev/null -w '%{{http_code}} ' http://{name}/canary; done");
    let ended = net.inside(&[name], &crate::egress::net::sh(&script));
    assert!(net.arrived().iter().all(|seen| seen.address.to_string() == "93.184.215.10"), "{ended:?}");
    assert!(ended.out.contains("200") && ended.out.contains("403"), "{ended:?}");
    ended.recorded("answer_private");
}
